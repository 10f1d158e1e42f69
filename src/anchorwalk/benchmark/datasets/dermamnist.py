"""DermaMNIST: 10,015 pictures of pigmented skin lesions, 28 x 28 pixels in colour, seven classes.

From MedMNIST (Yang et al. 2023), made from HAM10000 (Tschandl et al. 2018); CC BY-NC 4.0, so it is not
in this package.
"""

from anchorwalk.benchmark.datasets.archive import Layout, read_arrays, read_labels
from anchorwalk.benchmark.datasets.images import Images
from anchorwalk.benchmark.datasets.source import find

CLASSES = (
    "actinic keratoses and intraepithelial carcinoma",
    "basal cell carcinoma",
    "benign keratosis-like lesions",
    "dermatofibroma",
    "melanoma",
    "melanocytic nevi",
    "vascular lesions",
)
SPLITS = ("train", "val", "test")


def dermamnist() -> Images:
    """DermaMNIST in its standard split: 7007 rows for training, 1003 for validation, 2005 for testing.

    Reads `dermamnist.npz`; see `anchorwalk.benchmark.datasets.source` for where it is looked for.

    Raises:
        InvalidInput: The file does not hold what it should.
        DataMissing: The file is nowhere, and cannot be downloaded.
        DataDamaged: The download is not the published file.

    Example:
        >>> from anchorwalk.benchmark.datasets import dermamnist
        >>> dermamnist().x_train.shape  # doctest: +SKIP
        (7007, 28, 28, 3)
    """
    path = find("dermamnist.npz")
    layouts = {f"{split}_images": Layout("uint8", (28, 28, 3)) for split in SPLITS}
    arrays = read_arrays(path, layouts, others=tuple(f"{split}_labels" for split in SPLITS))
    x = {split: arrays[f"{split}_images"] for split in SPLITS}
    y = {
        split: read_labels(path, f"{split}_labels", arrays[f"{split}_labels"], len(x[split]), len(CLASSES))
        for split in SPLITS
    }
    return Images(x["train"], y["train"], x["val"], y["val"], x["test"], y["test"], CLASSES)
