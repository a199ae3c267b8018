"""The Python code of the documentation's chapters, run as it stands there, with the library that their Rust code makes."""

import doctest
import os
import sys
import types
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("chapter_file", "fewest"), [("your-own-types.md", 20), ("devices.md", 8)])
def test_chapter(monkeypatch: pytest.MonkeyPatch, chapter_file: str, fewest: int) -> None:
    file = FOLDER / chapter_file
    # The closing fence of a block is no output that is expected.
    text = file.read_text(encoding="utf-8").replace("\n```", "\n\n```")
    # pickle looks classes up in their module.
    chapter = types.ModuleType("chapter")
    chapter.LIBRARY = os.environ["OWN_TYPES_LIBRARY"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "chapter", chapter)
    session = doctest.DocTestParser().get_doctest(text, {}, file.name, str(file), 0)
    session.globs = vars(chapter)
    assert len(session.examples) > fewest
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(session, out=report.append)
    assert result.failed == 0, "".join(report)
