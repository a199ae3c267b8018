"""Fetches one file of a project from the package index that pip is configured for.

Usage: fetch_sdist.py PROJECT FILENAME SHA256 DESTINATION

pip itself builds the metadata of every source archive that it downloads, for which it needs the build tools of the
project. So this reads the index as pip would: the folders and pages of `find-links`, then the simple index.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.parse
import urllib.request
from html import unescape
from pathlib import Path


def pip_setting(name: str) -> str:
    """The value of an option of pip, from its environment variable or its configuration files."""
    value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if value is not None:
        return value
    command = [sys.executable, "-m", "pip", "config", "get", f"global.{name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else ""


def default_index() -> str:
    """The default index of pip."""
    command = [sys.executable, "-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def opener(index_pages: list[str]) -> urllib.request.OpenerDirector:
    """Proxies come from the environment, certificates and passwords from where pip takes them."""
    certificates = pip_setting("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or None
    passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
    for page in index_pages:
        parts = urllib.parse.urlsplit(page)
        if parts.username:
            name, password = urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")
            passwords.add_password(None, without_password(page), name, password, is_authenticated=True)
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=certificates)),
        urllib.request.HTTPBasicAuthHandler(passwords),
    ]
    proxy = pip_setting("proxy")
    if proxy:
        handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
    built = urllib.request.build_opener(*handlers)
    built.addheaders = [("User-Agent", "kernpack-conformance")]
    return built


def without_password(url: str) -> str:
    """The address without a user's name and password."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urllib.parse.urlunsplit(parts._replace(netloc=host))


def links(page: str, text: str) -> list[str]:
    """Every link of an index page, JSON or HTML, as absolute addresses."""
    if text.lstrip().startswith("{"):
        found = [file["url"] for file in json.loads(text)["files"]]
    else:
        found = [unescape(link) for link in re.findall(r"""<a\s[^>]*?href=["']([^"']*)["']""", text, re.IGNORECASE)]
    return [urllib.parse.urljoin(page, link) for link in found]


def named(url: str, filename: str) -> bool:
    """Returns whether the path of an address ends in this file."""
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2] == filename


def candidates(project: str, filename: str) -> tuple[list[Path], list[str]]:
    """The places to look for the file: paths on this machine, and pages that may link to it."""
    files, pages = [], []
    for place in pip_setting("find-links").split():
        if place.startswith(("http://", "https://")):
            pages.append(place)
        else:
            files.append(Path(place.removeprefix("file://")) / filename)
    if not pip_setting("no-index"):
        indexes = [pip_setting("index-url") or default_index(), *pip_setting("extra-index-url").split()]
        pages.extend(f"{index.rstrip('/')}/{project}/" for index in indexes)
    return files, pages


def fetch(project: str, filename: str, sha256: str) -> bytes:
    """The content of the file, from the first place that has it with the right hash."""
    files, pages = candidates(project, filename)
    problems = []

    def accepted(place: str, content: bytes) -> bool:
        actual = hashlib.sha256(content).hexdigest()
        if actual != sha256:
            problems.append(f"{place}: its sha256 is {actual}, expected {sha256}")
        return actual == sha256

    for file in filter(Path.is_file, files):
        content = file.read_bytes()
        if accepted(str(file), content):
            return content
    web = opener(pages)
    accept = {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5"}
    for page in pages:
        shown = without_password(page)
        try:
            with web.open(urllib.request.Request(shown, headers=accept), timeout=60) as answer:
                page_links = links(answer.geturl(), answer.read().decode())
            matching = [link for link in page_links if named(link, filename)]
            if not matching:
                problems.append(f"{shown}: has no {filename}")
            for link in matching:
                with web.open(without_password(link.partition("#")[0]), timeout=300) as answer:
                    content = answer.read()
                if accepted(link, content):
                    return content
        except (OSError, ValueError, KeyError) as error:
            problems.append(f"{shown}: {error}")
    sys.exit("\n".join([f"{filename} could not be fetched", *problems]))


def main() -> None:
    """Downloads to a temporary file beside the destination, then renames it."""
    project, filename, sha256, destination = sys.argv[1:]
    part = Path(destination + ".part")
    part.write_bytes(fetch(project, filename, sha256))
    part.replace(destination)


if __name__ == "__main__":
    main()
