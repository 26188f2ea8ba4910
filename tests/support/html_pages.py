"""What tests of pages share: names that try to escape, a reader of elements and data, and a contrast check."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np

HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onfocus='alert(3)",
    "<!--",
    "]]>&amp;&lt;",
    "{{ 7 * 7 }}{% raw %}",
    "種名_with_a_very_long_name_that_goes_on_and_on_and_on_until_its_end",
    "line\u2028separator",
)

VOID = {"meta", "input", "br", "img"}

# How readable text is on its ground, by the formula of the Web Content Accessibility Guidelines.
CONTRAST = """(function () {
  const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (one) => { for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour; } };
  const poor = [];
  for (const one of document.querySelectorAll("main *, header *, nav *, footer *")) {
    const hasText = Array.from(one.childNodes).some((node) => node.nodeType === 3 && node.textContent.trim());
    if (one.disabled || !hasText) continue;
    if (["SCRIPT", "STYLE", "NOSCRIPT", "title", "desc"].includes(one.tagName)) continue;
    const style = getComputedStyle(one), inside = one.namespaceURI.endsWith("svg");
    const [a, b] = [light(inside ? style.fill : style.color), light(ground(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(one.outerHTML.slice(0, 80));
  }
  return poor;
})()"""


class Reader(HTMLParser):
    """The elements of a page with their attributes, its text, and whether every element is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.words: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.setdefault(self.open[-1] if self.open else "", []).append(data)

    def text(self) -> str:
        shown = [part for tag, parts in self.words.items() if tag not in ("script", "style") for part in parts]
        return re.sub(r"\s+", " ", " ".join(shown))

    def data(self, name: str) -> dict:
        scripts = [attributes for tag, attributes in self.elements if tag == "script"]
        place = next(number for number, one in enumerate(scripts) if one.get("id") == name)
        return json.loads(self.words["script"][place])


def unpacked(text: str) -> np.ndarray:
    """The numbers that were packed."""
    return np.frombuffer(base64.b64decode(text), "<u2").astype(np.int64)
