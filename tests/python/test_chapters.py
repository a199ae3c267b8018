"""The Python code of the documentation's chapters, run as it stands there, with the library that their Rust code makes."""

import doctest
import os
import sys
import types
from pathlib import Path

import pytest

CHAPTER = Path(__file__).parents[2] / "docs" / "your-own-types.md"


def test_your_own_types(monkeypatch: pytest.MonkeyPatch) -> None:
    # The closing fence of a block is no output that is expected.
    text = CHAPTER.read_text(encoding="utf-8").replace("\n```", "\n\n```")
    # pickle looks classes up in their module.
    chapter = types.ModuleType("chapter")
    chapter.LIBRARY = os.environ["OWN_TYPES_LIBRARY"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "chapter", chapter)
    session = doctest.DocTestParser().get_doctest(text, {}, CHAPTER.name, str(CHAPTER), 0)
    session.globs = vars(chapter)
    assert len(session.examples) > 20
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(session, out=report.append)
    assert result.failed == 0, "".join(report)
