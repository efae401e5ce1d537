"""Names that may be anything."""

import numpy as np

from latent_domains.report import classes
from latent_domains.report.chart import image
from latent_domains.report.page import Charts, Page, Section


def test_names_that_no_page_can_hold_and_letters_that_the_font_lacks(recwarn):
    awkward = "犬\x01\udcff"
    drawn = classes.confusion_chart(np.eye(2, dtype=np.int64), [awkward, "b"], awkward)
    text = image([drawn]).decode()
    assert "犬\N{REPLACEMENT CHARACTER}" in text and "\x01" not in text
    page = Page(awkward, [awkward], [Section("a", awkward, [Charts(awkward, [drawn], awkward)])], "").html()
    page.encode()
    assert not recwarn.list
