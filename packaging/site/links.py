"""The links of a site that lead nowhere: to a file, or to a part of a page."""
import os
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.targets, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value and not (tag == "link" and name == "rel"):
                self.targets.append(value)
            if name in ("id", "name") and value:
                self.ids.add(value)


def broken_links(site):
    pages = {}
    for folder, _, names in os.walk(site):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(folder, name)
                with open(path) as file:
                    pages[path] = Page(file.read())
    broken = set()
    for path, page in pages.items():
        if path.endswith("/404.html"):  # its links are absolute: a server shows it for any address
            continue
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https"):
                continue
            full = os.path.normpath(os.path.join(os.path.dirname(path), unquote(parts.path))) if parts.path else path
            if os.path.isdir(full):
                full = os.path.join(full, "index.html")
            anchor = unquote(parts.fragment)
            if not os.path.exists(full) or (anchor and full in pages and anchor not in pages[full].ids):
                broken.add(f"{os.path.relpath(path, site)}: {target}")
    return sorted(broken)
