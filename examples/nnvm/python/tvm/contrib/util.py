"""Temporary folders."""

import os
import tempfile


class TempDirectory:
    """A folder that is removed with the object."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.temp_dir = self._folder.name

    def relpath(self, name):
        """The path of a file in the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self):
        """The names of the files in the folder."""
        return os.listdir(self.temp_dir)

    def remove(self):
        """Removes the folder now."""
        self._folder.cleanup()


def tempdir():
    """A new temporary folder."""
    return TempDirectory()
