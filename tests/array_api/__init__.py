"""The tests of the array API standard, through array_api_compat.torch, with PyTorch and with fusegrad.

    cd tests; python -m array_api CHECKOUT

CHECKOUT is a source of data-apis/array-api-tests with its submodule `array-api`; the packages
`array_api_compat`, `hypothesis`, `pytest-json-report` and `ndindex` are installed beside fusegrad.
What PyTorch passes and fusegrad does not is listed. Nothing of those tests is kept here.
"""
