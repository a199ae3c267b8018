"""Which inputs of a model the compiler has to know the values of: shapes, axes, counts."""

# Inputs that must be known at compile time, by operator.
BY_OPERATOR = {
    **dict.fromkeys(["Reshape", "Split", "Squeeze", "Unsqueeze", "Expand", "Tile", "CumSum", "CumProd", "OneHot", "Trilu", "CenterCropPad", "TopK"], (1,)),
    **dict.fromkeys(["SequenceAt", "SequenceErase", "SplitToSequence", "Upsample", "AffineGrid"], (1,)),
    **dict.fromkeys([f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")], (1,)),
    **dict.fromkeys(["ConstantOfShape", "BlackmanWindow", "HannWindow", "HammingWindow"], (0,)),
    **dict.fromkeys(["SequenceInsert", "MaxUnpool"], (2,)),
    **dict.fromkeys(["Dropout", "Col2Im", "DFT"], (1, 2)),
    **dict.fromkeys(["Pad", "STFT"], (1, 3)),
    "Slice": (1, 2, 3, 4),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "Loop": (0, 1),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
}  # fmt: skip

# Operators that only read the structure of a tensor.
STRUCTURE = {"Shape", "Size", "SequenceLength", "OptionalHasElement"}


def inputs_to_know(model):
    """The names of these inputs: what such an operator reads, and what that is computed of."""
    nodes = model.graph.node
    names = set()
    structured = any(output.type.WhichOneof("value") not in ("tensor_type", None) for output in model.graph.output)
    for node in nodes:
        indices = BY_OPERATOR.get(node.op_type, ())
        # Branches with results of different structure.
        if node.op_type == "If" and structured:
            indices = (0,)
        names.update(node.input[index] for index in indices if index < len(node.input))
    before = -1
    while len(names) != before:
        before = len(names)
        for node in nodes:
            if node.op_type not in STRUCTURE and names.intersection(node.output):
                names.update(node.input)
    return names.intersection(info.name for info in model.graph.input) - {""}
