"""Weak references in fields of Rust types, with the stock package: parents and children that are freed, and operations that do not run in circles."""

import copy
import gc
import pickle
from typing import Any

import pytest
import tvm_ffi
from tvm_ffi import dataclasses as dc
from tvm_ffi import structural_walk

from objects_table import LIBRARY

alive = LIBRARY.folders_alive


@dc.c_class("objects.Folder")
class Folder(tvm_ffi.Object):
    name: str
    folders: Any
    parent: Any


@dc.c_class("objects.Note")
class Note(tvm_ffi.Object):
    text: str


def tree():
    home, music, songs = Folder("home"), Folder("music"), Folder("songs")
    home.adopt(music)
    music.adopt(songs)
    return home, music, songs


@pytest.fixture(autouse=True)
def nothing_is_left():
    gc.collect()
    before = alive()
    yield
    gc.collect()
    assert alive() == before


def test_a_parent_is_seen_as_long_as_it_lives():
    home, music, songs = tree()
    assert songs.parent.same_as(music) and songs.parent.parent.same_as(home) and home.parent is None
    assert songs.path() == "home/music/songs"
    with pytest.raises(AttributeError):
        songs.parent = home
    home.adopt(songs)
    assert songs.path() == "home/songs"
    songs.parent.folders = [songs]
    del home
    assert (music.parent, songs.parent) == (None, None)


def test_an_object_that_is_gone_is_an_error_of_its_author():
    folder = Folder("home")
    note = Note("clean up", folder)
    assert note.folder().same_as(folder)
    del folder
    with pytest.raises(RuntimeError, match="the folder of the note 'clean up' is gone"):
        note.folder()


def test_nothing_goes_in_circles():
    (home, music, _), (other, *_) = tree(), tree()
    assert tvm_ffi.structural_equal(home, other) and tvm_ffi.structural_hash(home) == tvm_ffi.structural_hash(other)
    assert repr(music) == 'objects.Folder(name="music", folders=(objects.Folder(name="songs", folders=()),))'
    names = []
    structural_walk(home, lambda value: names.append(value.name) if isinstance(value, Folder) else None)
    assert sorted(names) == ["home", "music", "songs"]


@pytest.mark.parametrize("again", [
    lambda value: pickle.loads(pickle.dumps(value)),
    lambda value: tvm_ffi.serialization.from_json_graph_str(tvm_ffi.serialization.to_json_graph_str(value)),
], ids=["pickle", "JSON"])
def test_what_is_restored_has_no_parent(again):
    home, *_ = tree()
    restored = again(home)
    assert tvm_ffi.structural_equal(home, restored) and restored.folders[0].parent is None
    restored.folders[0].folders[0].adopt(Folder("more"))
    assert restored.folders[0].folders[0].folders[0].path() == "songs/more"


def test_a_copy_refers_to_what_the_original_refers_to():
    home, music, _ = tree()
    for copied in [copy.copy(music), copy.deepcopy(music)]:
        assert not copied.same_as(music) and copied.parent is not None and copied.parent.same_as(home)
    copied = copy.deepcopy(home)
    assert copied.folders[0].parent.same_as(home)
    # Code that makes a separate tree of a copy must adopt its parts again.
    inner = copied.folders[0]
    copied.folders = []
    copied.adopt(inner)
    assert inner.parent.same_as(copied)


def test_cycles_are_freed_without_the_garbage_collector():
    before = alive()
    gc.disable()
    try:
        for _ in range(100):
            home, music, songs = tree()
            assert alive() == before + 3
            del home, music, songs
            assert alive() == before
    finally:
        gc.enable()
