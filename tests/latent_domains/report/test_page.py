"""The report in a real browser: nothing is loaded, nothing is blank, nothing sticks out."""

import base64
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from latent_domains.report.build import build

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
WHY = "needs a headless browser: Debian's chromium and chromium-driver"

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=WHY)]

HOSTILE = '<img src=x onerror="console.error(1)"> $x$ & "y"'
"""A name of a folder."""


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory) -> Path:
    """The report of a run, of one in a folder with an awkward name, and of a record alone."""
    folder = tmp_path_factory.mktemp("report")
    awkward = folder / HOSTILE.replace("/", "")
    shutil.copytree(runs["mda"].path, awkward)
    kept = folder / "kept.json"
    shutil.copy(runs["mda seed 1"].record_file, kept)
    paths = [runs["source_only"].path, awkward, kept]
    build(paths, folder / "report.html", pictured=["source_only", awkward.name, "kept"])
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[webdriver.Chrome]:
    options = Options()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "hide-scrollbars",
        "disable-background-networking",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    short = {**os.environ, "TMPDIR": "/tmp"}  # noqa: S108 (paths of sockets are short)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER, env=short))
    yield driver
    driver.quit()


def show(browser: webdriver.Chrome, report: Path, *, width: int = 1200) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    browser.get(report.as_uri())


def picture(browser: webdriver.Chrome) -> np.ndarray:
    """The whole page as it is shown (height×width×3)."""
    height, width = browser.execute_script(
        "return [document.documentElement.scrollHeight, document.documentElement.scrollWidth]"
    )
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    return cv2.imdecode(np.frombuffer(base64.b64decode(shot["data"]), np.uint8), cv2.IMREAD_COLOR)


def test_build_nothing_is_requested_and_nothing_complains(browser, report):
    browser.get_log("performance"), browser.get_log("browser")
    show(browser, report)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert report.as_uri() in requests  # the log is on
    assert [url for url in requests if url != report.as_uri() and not url.startswith("data:")] == []
    assert browser.get_log("browser") == []
    assert browser.find_elements(By.CSS_SELECTOR, "script, [onerror], iframe, link[rel=stylesheet]") == []
    text = browser.find_element(By.TAG_NAME, "body").text
    assert HOSTILE.replace("/", "") in text


def test_build_every_figure_is_there_and_not_blank(browser, report):
    show(browser, report)
    page = picture(browser)
    ground = page[5, 5].astype(int)
    places = browser.execute_script(
        "return [...document.querySelectorAll('figure')].map(f => { const b = f.querySelector('img')"
        ".getBoundingClientRect(); return [f.id, b.left, b.top + scrollY, b.width, b.height] })"
    )
    names = {name for name, *_ in places}
    assert {"accuracy-1", "training-1", "domains-kept", "features-by-class-source_only", "confusion-1-usps"} <= names
    assert [name for name in names if name.startswith("pictures-")]
    for name, left, top, width, height in places:
        assert width > 100 and height > 30, name
        shown = page[int(top) : int(top + height), int(left) : int(left + width)]
        different = np.abs(shown.astype(int) - ground).max(axis=2) > 40
        assert different.mean() > 0.004 and shown.std() > 3, f"{name} is blank"
    alts = browser.execute_script("return [...document.querySelectorAll('img')].map(i => i.alt)")
    assert alts and all(len(alt) > 20 for alt in alts)


@pytest.mark.parametrize("width", [360, 768])
def test_build_small_screens_scroll_down_alone(width, browser, report):
    show(browser, report, width=width)
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    narrowest = "Math.min(...[...document.querySelectorAll('figure img')].map(i => i.getBoundingClientRect().width))"
    assert browser.execute_script(f"return {narrowest}") >= 350, "pictures are scrolled, not made too small to read"
