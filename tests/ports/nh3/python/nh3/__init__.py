"""The HTML sanitizer of the crate ammonia."""

from . import nh3 as _library
from .nh3 import Cleaner, __version__, clean, clean_text, escape, is_html

__all__ = [
    "ALLOWED_ATTRIBUTES",
    "ALLOWED_TAGS",
    "ALLOWED_URL_SCHEMES",
    "CLEAN_CONTENT_TAGS",
    "Cleaner",
    "__version__",
    "clean",
    "clean_text",
    "escape",
    "is_html",
]

ALLOWED_TAGS, CLEAN_CONTENT_TAGS, ALLOWED_URL_SCHEMES = _library._defaults()
ALLOWED_ATTRIBUTES = _library._default_attributes()
