"""Settings of a fit, from a YAML file or from options, checked by pydantic."""

from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from anchorwalk import checks
from anchorwalk.app.tables.reading import Reading


class FitSettings(BaseModel):
    """The settings of a fit; all but the target have a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str = Field(description="The column to predict.")
    task: Literal["auto", "regression", "classification"] = Field(
        "auto", description="auto looks at the target: text or few whole numbers are classes."
    )
    drop: tuple[str, ...] = Field((), description="Columns to leave out, such as identifiers.")
    types: dict[str, Literal["number", "date", "text"]] = Field(
        {}, description="Kinds of columns that would be taken for something else: {zip: text}."
    )
    texts: Literal["auto", "one_hot", "target"] = Field(
        "auto",
        description="one_hot: zeros and ones for each text; target: the mean of the target; auto: by their number.",
    )
    decimal: Literal[".", ","] | None = Field(None, description="Decimal sign of the file; null detects it.")
    thousands: str = Field("auto", description="The sign between groups of digits; auto, or none.")
    missing: tuple[str, ...] = Field((), description="Texts that mean missing, in place of ?, -, NA and their like.")
    dates: str | None = Field(None, description="Format of dates, such as '%d/%m/%Y'; null detects it.")
    separator: str | None = Field(None, description="Sign between the fields of the file; null detects it.")
    encoding: str | None = Field(None, description="Encoding of the file, such as cp1252; null is UTF-8.")
    method: Literal["sae", "ae", "deep_ensemble"] = Field(
        "sae", description="sae: sequential anchored ensemble; ae: anchored ensemble; deep_ensemble."
    )
    budget: PositiveInt | Literal["auto"] = Field(
        "auto", description="Epochs over all chains: the cost; auto goes by the number of rows."
    )
    seconds: PositiveFloat | None = Field(None, description="Train for about this many seconds instead.")
    hidden: tuple[PositiveInt, ...] = Field((50, 50), description="Units of each hidden layer.")
    noise: Literal["constant", "varying"] = Field(
        "varying", description="Regression: whether the noise depends on the features."
    )
    chains: PositiveInt | None = Field(None, description="Independent chains (sae), or members (others).")
    batch_size: PositiveInt | Literal["auto"] = Field("auto", description="Rows in a minibatch.")
    learning_rate: PositiveFloat | None = Field(None, description="Of Adam at the start of a training.")
    step_size: PositiveFloat | None = Field(
        None, description="Of the anchors' walk, in prior standard deviations; null lets the planner choose."
    )
    seed: int = Field(0, ge=0, lt=2**31, description="Decides everything that is random.")

    @property
    def reading(self) -> Reading:
        """How the file is read."""
        texts = tuple(name for name, kind in self.types.items() if kind == "text")
        return Reading(self.separator, self.decimal, self.thousands, self.missing, self.encoding, texts)

    @classmethod
    def gather(cls, file: Path | None, options: dict[str, Any]) -> Self:
        """Settings from a YAML file and from options, which go before it; options that are None are left open.

        Raises:
            InvalidInput: A setting that is unknown, missing or out of its range; all of them are named.
        """
        values = {**_yaml(file), **{name: value for name, value in options.items() if value is not None}}
        try:
            return cls(**values)
        except ValidationError as error:
            # What may be of two kinds has an error for each.
            first = {one["loc"][:1]: one for one in reversed(error.errors())}
            details = "; ".join(_described(one, file) for one in reversed(first.values()))
            remedy = "`anchorwalk init` writes a file of all settings with their defaults."
            return checks.reject("settings", details, "settings in their ranges", remedy)


def _yaml(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        checks.reject("--config", repr(str(file)), "a file", "`anchorwalk init` writes one.")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        checks.reject(
            "--config", f"{file.name} ({' '.join(str(error).split())})", "YAML", "`anchorwalk init` writes some."
        )
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        checks.reject(
            "--config", f"{file.name} with {values!r}", "lines such as `budget: 1000`", "See `anchorwalk init`."
        )
    return values


def _described(error: Any, file: Path | None) -> str:
    name = ".".join(map(str, error["loc"][:1]))
    if error["type"] == "missing":
        return f"no {name} (pass --{name.replace('_', '-')}{', or set it in ' + file.name if file else ''})"
    if error["type"] == "extra_forbidden":
        return f"{name}, which is no setting"
    if error["type"] == "tuple_type":
        return f"{name}: {error['input']!r} (a list is wanted: [{error['input']}])"
    return f"{name}: {error['input']!r} ({error['msg']})"


def template(target: str = "y") -> str:
    """A YAML file of all settings with their defaults and what they mean."""
    lines = [
        "# Settings for: anchorwalk fit data.csv --config this-file --out runs/x",
        "# Options on the command line override what is set here.",
        "",
    ]
    for name, about in FitSettings.model_fields.items():
        default = target if about.is_required() else about.default
        value = yaml.safe_dump(list(default) if isinstance(default, tuple) else default, default_flow_style=True)
        lines += [f"# {about.description}", f"{name}: {value.splitlines()[0]}", ""]
    return "\n".join(lines)
