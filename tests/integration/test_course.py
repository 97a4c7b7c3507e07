"""The course in a browser: what `python -m tests.pages.browser` builds, and its cells run by Pyodide in Chromium."""

import re
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from tests.pages import browser as course

nbformat = pytest.importorskip("nbformat")

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path):
    """Files that are called like those of Pyodide."""
    directory = tmp_path / "pyodide"
    directory.mkdir()
    for name in course.FILES:
        (directory / name).write_text(name, encoding="utf-8")
    return directory


def test_what_is_built_is_whole_and_names_nothing_outside(installed, tmp_path):
    site = tmp_path / "site"
    course.build(site, installed)
    pages = sorted(path.name for path in site.glob("*.html"))
    assert len(pages) == 6 + 6 + 2  # six notebooks, since one needs NumPy, their solutions, the index and the glossary
    assert not {"5_the_bridge.html", "part_5.html"} & {*pages}
    for name in pages:
        text = (site / name).read_text(encoding="utf-8")
        assert not re.search(r'(src|href)="(?!https://pytorch.org)(https?:)?//', text.replace("<a ", ""))
        links = [link for link in re.findall(r'(?:src|href)="([^"]+)"', text) if not re.match("https?:|data:", link)]
        assert [link for link in links if not (site / link).exists()] == []
        assert "**" not in re.sub(r"<(textarea|code|script).*?</\1>", "", text, flags=re.DOTALL)
    index = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="glossary.html"' in index
    assert '<a href="part_1.html">Solutions</a>' in index
    assert "def two_paths(x):" in (site / "part_1.html").read_text(encoding="utf-8")
    assert (site / "index.html").read_bytes() == (site / "1_numbers_and_gradients.html").read_bytes()
    with zipfile.ZipFile(site / "checkout.zip") as archive:
        names = set(archive.namelist())
    assert {"micrograd/compiler/targets/runtime.c", "tests/notebooks/checks/__init__.py"} <= names
    package = subprocess.run(["git", "ls-files", "micrograd"], cwd=CHECKOUT, capture_output=True, text=True)
    assert set(package.stdout.splitlines()) <= names
    assert not any(name.endswith((".ipynb", ".pyc")) for name in names)
    assert not any(name.endswith(".html") for name in names if name.startswith("tests/"))


def test_what_is_built_compiles_and_shows_a_playground(installed, tmp_path):
    """With nothing else of the checkout at hand, as in the browser."""
    course.build(tmp_path / "site", installed)
    with zipfile.ZipFile(tmp_path / "site" / "checkout.zip") as archive:
        archive.extractall(tmp_path / "checkout")
    program = (
        "import micrograd; print(micrograd.compile(lambda x: x * x, (1.0,), backend='python')(3.0)); "
        "from tests.notebooks.lessons import lesson; print(lesson('xor'))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path / "checkout", capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "9.0\nsee lesson_xor.html\n")


def test_without_npm_the_command_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    done = subprocess.run([sys.executable, "-m", "tests.pages.browser"], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "Pyodide is installed by npm, which comes with Node.js: install that, and try again\n"


def test_the_command_builds_where_it_is_told(installed, tmp_path, monkeypatch):
    modules = tmp_path / "micrograd" / f"pyodide-{course.PYODIDE}" / "node_modules"
    modules.mkdir(parents=True)
    installed.rename(modules / "pyodide")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    site = tmp_path / "site"
    command = [sys.executable, "-m", "tests.pages.browser", "--build", str(site)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"built: {site}, to be put on a web server\n"
    assert (site / "pyodide" / "pyodide.mjs").read_text(encoding="utf-8") == "pyodide.mjs"


WORKER = """  // shows a page for each cell
const html = '<iframe src="a.html" width="100%" height="900"></iframe>';
const answer = { outputs: [{ data: { "text/html": html, "text/plain": "" } }], files: { "a.html": "<p>a</p>" } };
onmessage = () => postMessage(answer);
postMessage({ ready: "Python" });
"""


@pytest.fixture
def page(installed, tmp_path, browser):
    """A browser page. Addresses are relative to the course, served with that worker in place of Python."""
    site = tmp_path / "site"
    course.build(site, installed)
    (site / "worker.js").write_text(WORKER, encoding="utf-8")
    with course.server(site, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page(base_url=f"http://localhost:{server.server_port}")
        yield page
        page.close()
        server.shutdown()


@pytest.mark.parametrize("width", [400, 1100, 1500])
def test_a_cell_shows_all_its_lines_and_a_page_its_full_height(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/3_training_and_seeing_it.html")
    page.locator(".cell button").first.click()
    page.locator("iframe").wait_for()
    page.set_viewport_size({"width": width - 50, "height": 900})
    page.wait_for_function("""[...document.querySelectorAll("textarea")].every(text =>
      text.scrollWidth <= text.clientWidth && text.scrollHeight <= text.clientHeight)""")
    assert page.locator("textarea").count() > 10
    assert page.evaluate("fetch(document.querySelector('[download$=html]').href).then(a => a.text())") == "<p>a</p>"
    frame = page.locator("iframe").bounding_box()
    assert frame["height"] >= 900
    assert page.locator("header").bounding_box()["height"] < 100  # since it stays in view, on phones, too
    assert 0 <= frame["x"] <= frame["x"] + frame["width"] <= width - 50
    assert page.evaluate("document.documentElement.scrollWidth") <= width - 50
    page.goto("/1_numbers_and_gradients.html")
    assert page.evaluate("document.querySelector('table').scrollWidth") <= width - 50 - 32


def test_a_phone_shows_no_keys_and_does_not_zoom_in_on_a_cell(page):
    page.goto("/")
    with page.context.browser.new_context(has_touch=True) as context:
        phone = context.new_page()
        phone.goto(page.url)
        phone.get_by_text("Python is ready.", exact=True).wait_for()
        assert phone.evaluate("getComputedStyle(document.querySelector('textarea')).fontSize") == "16px"


def test_what_a_student_writes_is_kept_until_they_start_over(page):
    page.goto("/1_numbers_and_gradients.html")
    texts = "[...document.querySelectorAll('textarea')].map(text => text.value)"
    first, *others = page.evaluate(texts)
    page.locator("textarea").first.fill("1 + 1")
    page.goto("/2_a_network_by_hand.html")
    assert "1 + 1" not in page.evaluate(texts)
    page.goto("/index.html")  # also the first part
    for answer, expected in ("dismiss", "1 + 1"), ("accept", first):
        page.once("dialog", lambda dialog, answer=answer: getattr(dialog, answer)())
        page.click("#over")
        assert page.evaluate(texts) == [expected, *others]
        page.reload()
        assert page.evaluate(texts) == [expected, *others]


def test_a_notebook_is_downloaded_with_what_the_student_wrote_and_can_be_marked(page, tmp_path):
    from tests.notebooks.mark import mark

    page.goto("/")
    source = "import checks\nfrom solutions.part_1 import slope\n\nchecks.slope(slope)  # </script>"
    page.locator("textarea").nth(3).fill(source)
    with page.expect_download() as download:
        page.click("#download")
    name = download.value.suggested_filename
    assert name == course.NOTEBOOKS[0].name
    download.value.save_as(tmp_path / name)
    written, stored = (nbformat.read(path, as_version=4) for path in (tmp_path / name, course.NOTEBOOKS[0]))
    [changed] = [cell for cell, original in zip(written.cells, stored.cells, strict=True) if cell != original]
    assert changed.source == source
    assert mark(tmp_path / name).startswith(f"{name}: 1 of 5 right")
    page.goto("/part_1.html")
    assert not page.is_visible("#download")


def test_tab_indents_and_after_escape_leaves(page):
    page.goto("/")
    text, focused = page.locator("textarea").first, "document.activeElement.tagName"
    text.fill("a\nb")
    for keys, expected in [
        (["Tab"], "a\nb    "),
        (["Control+z"], "a\nb"),
        (["Control+a", "Tab", "Tab"], "        a\n        b"),
        (["Shift+Tab"], "    a\n    b"),
        (["End", "Shift+Tab", "End", "Enter", "x"], "    a\nb\nx"),
    ]:
        for key in keys:
            text.press(key)
        assert text.input_value() == expected
    assert page.evaluate(focused) == "TEXTAREA"
    text.press("Escape")
    text.press("Shift+Tab")
    assert page.evaluate(focused) != "TEXTAREA"


def test_the_page_shows_how_long_all_cells_took_even_where_nothing_may_be_stored(page):
    page.add_init_script("let second = 1; performance.now = () => 1000 * second++;")  # each look takes one
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error(); } });")
    page.goto("/")
    page.locator("#state", has_text="is ready").wait_for()
    page.click("#all")
    page.locator("#state", has_text="Ran in").wait_for()
    assert page.inner_text("#state") == f"Ran in {page.locator('iframe').count()}.0 s."
    assert page.locator("iframe").count() == page.locator(".cell").count()
    page.locator(".cell button").first.click()
    page.get_by_text("Ran in 1.0 s.").wait_for()


@pytest.fixture(scope="module")
def address(request, tmp_path_factory):
    """Where the course is served, with the Pyodide that npm has brought."""
    from tests.integration.test_pyodide import VERSIONS

    assert course.PYODIDE in VERSIONS.values()
    site = tmp_path_factory.mktemp("site")
    try:
        course.build(site, course.pyodide(request.config.cache.mkdir(f"pyodide-{course.PYODIDE}")))
    except RuntimeError as error:
        pytest.skip(str(error))
    with course.server(site, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


def test_the_first_part_runs_in_a_browser_as_it_is_stored(browser, address):
    stored = nbformat.read(course.NOTEBOOKS[0].parent / "executed" / course.NOTEBOOKS[0].name, as_version=4)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    page = browser.new_page()
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    page.wait_for_function("document.querySelector('#state').textContent.includes('ready')", timeout=240_000)
    page.click("#all")
    page.wait_for_function("!document.querySelector('.cell:not([aria-busy=false])')", timeout=240_000)
    outputs = [place.inner_text() for place in page.query_selector_all(".output")]
    assert len(outputs) == len(code)
    for shown, cell in zip(outputs, code, strict=True):
        images = {"image/svg+xml", "text/html"}
        words = [output for output in cell.outputs if not images & output.get("data", {}).keys()]
        texts = [output.get("text") or output["data"]["text/plain"] for output in words]
        assert shown.split() == "".join(texts).split()
    assert len(page.query_selector_all(".output img")) == 4
    assert "(0, 0, 0, 0)" in page.evaluate("getComputedStyle(document.querySelector('.output img')).backgroundColor")

    [exercise] = [i for i, cell in enumerate(code) if "checks.slope" in cell.source]
    text = page.locator("textarea").nth(exercise)
    text.fill("def slope(f, x):\n    h = 1e-5\n    return (f(x + h) - f(x - h)) / (2 * h)\n\nchecks.slope(slope)")
    text.press("Shift+Enter")
    place = page.locator(".output").nth(exercise)
    page.wait_for_function("document.querySelector('#state').textContent.startsWith('Ran')")
    assert place.inner_text().strip() == "Right."
    compiled = "import micrograd\n\nmicrograd.compile(lambda x: x * x, (1.0,))(3.0)"
    for source, words in ((compiled, "9.0"), ("1 / 0", "ZeroDivisionError")):
        text.fill(source)
        text.press("Shift+Enter")
        place.get_by_text(words).wait_for()
    assert place.inner_text().strip() == "line 1: 1 / 0\nZeroDivisionError: division by zero"
    text.fill("def f():")
    text.press("End")
    text.press("Enter")
    assert text.input_value() == "def f():\n    "
    assert said == []
    assert all(url.startswith((address, "data:")) for url in asked)
    page.close()
