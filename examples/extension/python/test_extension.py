"""The checks of run.py as tests.

EXPR_LIBRARY and EXTENSION_LIBRARY name the libraries.
"""

import pytest
import run
import tvm_ffi


@pytest.mark.parametrize("check", run.CHECKS, ids=lambda check: check.__name__)
def test_check(check):
    check()


def test_every_function_has_documentation_and_types():
    for library in (run.extension.expr, run.extension.library):
        names = [name for name in tvm_ffi.registry.list_global_func_names() if name.split(".")[0] in ("expr", "extension")]
        assert len(names) > 10
        for name in names:
            function = name.split(".")[1]
            if not library.implements_function(function):
                continue
            assert library.get_function_doc(function), name
            assert "type_schema" in library.get_function_metadata(function), name
