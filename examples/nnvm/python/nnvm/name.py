"""Names of nodes that a program does not name."""


class NameManager:
    """Numbers nodes by their operator: `conv2d0`, `conv2d1`. A `with` block starts at 0."""

    current = None

    def __init__(self):
        self._counts = {}
        self._outer = None

    def get(self, name, hint):
        """The name if there is one, else the hint with the next number."""
        if name:
            return name
        number = self._counts.get(hint, 0)
        self._counts[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self):
        self._outer = NameManager.current
        NameManager.current = self
        return self

    def __exit__(self, *_):
        NameManager.current = self._outer


class Prefix(NameManager):
    """Puts a prefix before all names in a `with` block."""

    def __init__(self, prefix):
        super().__init__()
        self._prefix = prefix

    def get(self, name, hint):
        return self._prefix + super().get(name, hint)


NameManager.current = NameManager()
