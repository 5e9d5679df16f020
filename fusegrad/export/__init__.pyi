"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.tracer.export.api import export as export, save as save
from fusegrad.tracer.export.dims import Dim as Dim
from fusegrad.tracer.export.exported import Exported as Exported
from fusegrad.tracer.export.files import ExportError as ExportError
from fusegrad.tracer.export.graph_file import load as load
