"""What the text of our nets says of layers that may surprise."""

from caffe.proto.caffe_pb2 import PoolingParameter

from latent_domains.models.prototxt import Comment

COMMENTS: tuple[Comment, ...] = (
    (
        lambda layer: layer.data_param.HasField("shuffle_seed"),
        "Each epoch has an order of its own. Stock Caffe knows no shuffle_seed; without it the LMDB's order is read.",
    ),
    (
        lambda layer: layer.data_param.HasField("records"),
        "All classes are read in equal shares. Stock Caffe knows no records; without it each record is read once.",
    ),
    (
        lambda layer: len(layer.convolution_param.pad_end) > 0,
        "As TensorFlow pads: more behind the last row and column than before the first. Stock Caffe knows no pad_end.",
    ),
    (
        lambda layer: layer.type == "Data" and len(layer.top) == 1 and layer.name.startswith("data_"),
        "Target images come without a label top: nothing in this net can see their labels.",
    ),
    (
        lambda layer: layer.type == "Data" and layer.name.startswith("domain_label_"),
        "Known domains of the source images, one record for each of theirs; -1 where unknown.",
    ),
    (
        lambda layer: layer.type == "Slice" and layer.top[0] == "log_w_nchw",
        "Of a file: the logarithms of w (0 where unknown), 1 where unknown, and the most probable domain (-1).",
    ),
    (
        lambda layer: layer.type == "Convolution" and len(layer.param) > 0 and layer.param[0].lr_mult == 0,
        "The convolutions are frozen, as in the paper: they come from ImageNet.",
    ),
    (
        lambda layer: layer.pooling_param.round_mode == PoolingParameter.FLOOR,
        "As Torch pools: padded, and rounded down where Caffe rounds up.",
    ),
    (
        lambda layer: layer.type == "Slice" and layer.top[0] in ("stem_source", "domain_features"),
        "Sources and targets part ways: a branch predicts the domains of its own images alone.",
    ),
    (
        lambda layer: layer.type == "DummyData" and layer.dummy_data_param.shape[0].dim[1] == 1,
        "A group of one known domain: the softmax over one constant logit is 1.",
    ),
    (
        lambda layer: layer.name == "w",
        "w: a row of domain probabilities for each image, the sources' rows first.",
    ),
    (
        lambda layer: layer.python_param.layer == "MDALayer",
        "mDA, then a Scale that all domains share. The three blobs of mDA (sums of means and of variances, and their\n"
        "# divisor) are its own: it updates them in forward, the solver must not.",
    ),
)
