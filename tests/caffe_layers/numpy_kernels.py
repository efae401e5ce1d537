"""The row kernels in plain NumPy and in the precision of their arguments, to run ``_cpu_mda.Rows`` in float64."""


def row_moments(x, mean, variance):
    mean[...] = x.mean(axis=1)
    variance[...] = ((x - mean[:, None]) ** 2).mean(axis=1)


def row_gradients(x, g, mean, variance, grad_sum, grad_dot):
    row_moments(x, mean, variance)
    grad_sum[...] = g.sum(axis=1)
    grad_dot[...] = (g * (x - mean[:, None])).sum(axis=1)


def row_affine(x, centre, scale, offset, y):
    y[...] = scale[:, None] * (x - centre[:, None]) + offset[:, None]


def row_input_gradient(x, g, centre, scale, slope, offset, dx):
    dx[...] = scale[:, None] * g + slope[:, None] * (x - centre[:, None]) + offset[:, None]
