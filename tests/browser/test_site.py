"""The search of the site in a browser that has opened the site from a folder."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

SHIM = Path(__file__).parents[2] / "docs" / "assets" / "iframe-worker.js"
PAGE = """<!doctype html>
<title>Search</title>
<script src="shim.js"></script>
<body><output></output>
<script>
  const worker = new Worker("worker.js");
  worker.addEventListener("message", (event) => { document.querySelector("output").textContent += event.data.found; });
  worker.postMessage({ query: "a" });
  worker.postMessage({ query: "b" });
</script>
"""
WORKER = 'addEventListener("message", (event) => postMessage({ found: `${event.data.query} in ${self !== top}; ` }));'


def test_a_page_that_is_opened_from_a_folder_can_use_a_worker(chromium: Browser, tmp_path: Path) -> None:
    (tmp_path / "shim.js").write_text(SHIM.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "worker.js").write_text(WORKER, encoding="utf-8")
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    page = chromium.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    expect(page.locator("output")).to_have_text("a in true; b in true;")
    page.close()
