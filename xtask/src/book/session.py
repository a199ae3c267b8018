"""The Python session of a page: runs blocks as they come and keeps their names. Each request is a line: kind, file with the code, file for the output, first line in the page, name of the page, folder, with tabs between.

The answer is a line, "ok" or "failed"; what the block printed, and the traceback if there is one, is in the file for the output.
"""

import doctest
import os
import sys
import traceback
import types

answers = os.fdopen(os.dup(1), "w")
# pickle looks up classes in their module.
session = types.ModuleType("__page__")
sys.modules["__page__"] = session


def run_code(code, page, line):
    exec(compile("\n" * line + code, page, "exec"), vars(session))
    return True


def run_doctest(code, page, line):
    example = doctest.DocTestParser().get_doctest(code, {}, page, page, line)
    if not example.examples:
        raise ValueError("a block of pycon has at least one >>> line")
    example.globs = vars(session)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    return runner.run(example, clear_globs=False).failed == 0


for request in sys.stdin:
    kind, code_file, output_file, line, page, folder = request.rstrip("\n").split("\t")
    os.chdir(folder)
    # Native code prints as well, so the streams themselves are redirected.
    with open(output_file, "wb", buffering=0) as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    with open(code_file, encoding="utf-8") as file:
        code = file.read()
    try:
        good = (run_doctest if kind == "pycon" else run_code)(code, page, int(line))
    except BaseException:
        traceback.print_exc()
        good = False
    sys.stdout.flush()
    sys.stderr.flush()
    print("ok" if good else "failed", file=answers, flush=True)
