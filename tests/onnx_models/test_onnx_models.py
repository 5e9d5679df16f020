"""The models of this folder: onnxruntime agrees at three batch sizes."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_models.check import check
from onnx_models.own_models import MODELS

# Where data decide, or rounds are alike: what the file has for that.
KINDS = {
    **dict.fromkeys(["routed", "clipped", "nested branches", "scored"], "If"),
    **dict.fromkeys(["newton", "settled"], "Loop"),
    **dict.fromkeys(["relaxed", "unrolled", "rays"], "Scan"),
    **{"ViT": "LayerNormalization", "ConvNeXt": "Gelu", "attention": "Softmax", "ResNet": "Conv"},
}


@pytest.mark.one_in(4)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_agrees_at_three_batch_sizes(name: str):
    found = check(MODELS[name])
    assert KINDS.get(name, "Identity") in found
