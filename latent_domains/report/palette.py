"""Colours, marks and dashes of the charts, and Matplotlib's settings.

The colours are Okabe & Ito's, which colour-blind people can tell apart. Dashes and marks tell the same.
"""

COLOURS = {
    "ink": "#1b2028",
    "muted": "#57606b",
    "grid": "#d6dce3",
    "ground": "#fefefe",
    "plain": "#2c8fc7",
    "source_only": "#6e747b",
    "dial": "#0072b2",
    "mda": "#cf5b00",
    "multi_source": "#008f68",
    "random_w": "#7d7420",
    "kmeans_w": "#8a5a9e",
    "style_w": "#b8475a",
    "ghost_w": "#4d6b8a",
    "gong2013": "#9a6700",
    "hoffman2012": "#a2487f",
}
"""Colours of what is no data, and of the methods."""

GROUP_COLOURS = (
    *("#0073b3", "#c98500", "#00906a", "#b0528c", "#5b5fc7"),
    *("#b3402a", "#5f6b00", "#00808a", "#7a4b2a", "#3d444d"),
)
"""Colours of domains or classes, repeated if there are more."""

MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
"""Marks of domains, and of the lines of one method, repeated if there are more."""

Dashes = str | tuple[int, tuple[float, ...]]

DASHES: tuple[Dashes, ...] = ("-", "--", ":", "-.", (0, (6, 1.5, 1, 1.5, 1, 1.5)))
"""Dashes of the lines of one method, repeated if there are more."""

STYLE = {
    "svg.fonttype": "none",
    "text.usetex": False,  # whatever the user's own settings say
    "text.parse_math": False,  # names are shown as they are, dollars too
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": COLOURS["grid"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": COLOURS["ground"],
    "figure.titlesize": 10,
    "figure.titleweight": "bold",
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["grid"],
    "ytick.color": COLOURS["grid"],
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["muted"],
}
"""Matplotlib's settings for every chart."""
