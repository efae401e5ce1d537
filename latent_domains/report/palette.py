"""Colours of the report, each for a light and for a dark page, and how lines and dots differ beside them.

Charts are drawn in the light ones. In the page they are CSS variables. Okabe & Ito's colours, told apart by people who
see colours differently, darkened or lightened until they stand out from their ground; dashes and marks say the same.
"""

COLOURS = {
    "ink": ("#1b2028", "#e9ecef"),
    "muted": ("#57606b", "#a7b0ba"),
    "grid": ("#d6dce3", "#3a424c"),
    "ground": ("#fefefe", "#15191e"),
    "plain": ("#2c8fc7", "#7cc7f2"),
    "source_only": ("#6e747b", "#aab2bb"),
    "dial": ("#0072b2", "#58aeea"),
    "mda": ("#cf5b00", "#ff9a57"),
    "multi_source": ("#008f68", "#2ecfa0"),
    "random_w": ("#7d7420", "#cfc35c"),
    "kmeans_w": ("#8a5a9e", "#c79adb"),
    "ghost_w": ("#4d6b8a", "#9db8d4"),
    "gong2013": ("#9a6700", "#e3b341"),
    "hoffman2012": ("#a2487f", "#e08fc2"),
    "part1": ("#0073b3", "#59afeb"),
    "part2": ("#c98500", "#f0b340"),
    "part3": ("#00906a", "#2fd0a1"),
    "part4": ("#b0528c", "#e08ebf"),
    "part5": ("#5b5fc7", "#9fa3ff"),
    "part6": ("#b3402a", "#ff8a73"),
    "part7": ("#5f6b00", "#bccb4a"),
    "part8": ("#00808a", "#3fcbd6"),
    "part9": ("#7a4b2a", "#d2a27c"),
    "part10": ("#3d444d", "#c9d1d9"),
}
"""Name of the CSS variable → the colour on a light and on a dark page. No two light ones are the same."""

LIGHT = {name: light for name, (light, _) in COLOURS.items()}

VARIABLES = {light: f"var(--{name.replace('_', '-')})" for name, light in LIGHT.items()}
"""A light colour → how the page's CSS refers to it."""

PARTS = tuple(LIGHT[name] for name in COLOURS if name.startswith("part"))
"""Colours of domains or classes, in turns."""

MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
"""Marks of domains, and of the lines of one method, in turns."""

Dashes = str | tuple[int, tuple[float, ...]]

DASHES: tuple[Dashes, ...] = ("-", "--", ":", "-.", (0, (6, 1.5, 1, 1.5, 1, 1.5)))
"""Of the lines of one method, in turns."""

STYLE = {
    "svg.fonttype": "none",
    "text.usetex": False,  # whatever its user has chosen
    "text.parse_math": False,  # names are shown as they are, dollars too
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.edgecolor": LIGHT["grid"],
    "axes.labelcolor": LIGHT["muted"],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": LIGHT["ground"],
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["grid"],
    "ytick.color": LIGHT["grid"],
    "xtick.labelcolor": LIGHT["muted"],
    "ytick.labelcolor": LIGHT["muted"],
}
"""Matplotlib's settings for every chart."""
