"""Attributes of graphs that inference begins with."""

DTYPE_TO_TCODE = {
    "default": -1, "float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "int16": 7,
    "uint16": 8, "uint32": 9, "uint64": 10, "bool": 11,
}  # fmt: skip
TCODE_TO_DTYPE = {code: None if name == "default" else name for name, code in DTYPE_TO_TCODE.items()}


def set_shape_inputs(g, shape):
    """Sets the shapes of variables, by name. Variables without one are inferred, or have it as an attribute."""
    g._set_json_attr("shape_inputs", {name: list(of) for name, of in (shape or {}).items() if len(of)})
    return g


def set_dtype_inputs(g, dtype):
    """Sets the element types of variables: by name (names of types or their numbers), or one for all."""
    if isinstance(dtype, dict):
        given = dtype.items()
    else:
        given = [(name, dtype) for name in g.index.input_names]
    codes = {name: of if isinstance(of, int) else DTYPE_TO_TCODE[str(of)] for name, of in given if of is not None}
    g._set_json_attr("dtype_inputs", codes)
    return g


def set_layout_inputs(g, layout):
    """Sets the layouts of variables, by name; a text is that of the first variable."""
    names = g.index.input_names
    by_name = layout if isinstance(layout, dict) else {names[0]: str(layout)} if layout else {}
    g._set_json_attr("layout_inputs", {name: str(of) for name, of in by_name.items()})
    return g
