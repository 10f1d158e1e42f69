"""Real files as the world writes them, in the folder `files`: what is understood, and what is said of it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from anchorwalk.app import tables
from anchorwalk.app.cli import app
from anchorwalk.app.tables import prepare
from anchorwalk.app.tables.columns import Options
from anchorwalk.app.tables.numbers import number
from anchorwalk.app.tables.reading import column
from anchorwalk.errors import InvalidInput

FILES = Path(__file__).parent / "files"


def understood(file, target, **settings):
    """Target, features and notes of a file, before anything is trained."""
    settings = tables.FitSettings(target=target, **settings)
    table = tables.read(FILES / file, settings.reading)
    options = Options(table.attrs["decimal"], settings.thousands, settings.dates)
    table = table[table[target].notna()]
    form, y, words = prepare.target(table[target], settings, options)
    _, columns, notes = prepare.features(table, settings, options)
    return form, y, columns, "\n".join([f"{target}: {words}", *notes])


def command(*arguments, code=0):
    result = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"}).invoke(app, [str(one) for one in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("text", "decimal", "value", "unit"),
    [
        ("141,708", ".", 141708, ""),
        ("141,708", ",", 141.708, ""),
        ("1.234.567,5", ",", 1234567.5, ""),
        ("12,34,567", ".", 1234567, ""),
        ("1 234,5", ",", 1234.5, ""),
        ("1\u202f234", ".", 1234, ""),
        ("1'000.50", ".", 1000.5, ""),
        ("0,123", ".", None, ""),
        ("1,5", ".", None, ""),
        ("1,234,5", ".", None, ""),
        ("$5", ".", 5, "$"),
        ("-$5", ".", -5, "$"),
        ("(5)", ".", -5, ""),
        ("\u22125 €", ".", -5, "€"),
        ("12 EUR", ".", 12, "EUR"),
        ("R$ 1.234,00", ",", 1234, "R$"),
        ("12.5%", ".", 12.5, "%"),
        ("1e-3", ".", 1e-3, ""),
        ("01.02.2020", ".", None, ""),
        ("12th", ".", None, ""),
        ("5 kg", ".", None, ""),
        ("$5€", ".", None, ""),
        ("-", ".", None, ""),
        ("", ".", None, ""),
    ],
)
def test_a_number_as_people_write_it(text, decimal, value, unit):
    assert number(text, decimal) == (None if value is None else (value, unit))


@pytest.mark.parametrize(
    ("file", "settings"),
    [("european.csv", {}), ("utf16.csv", {}), ("western.csv", {"encoding": "cp1252"})],
)
def test_a_european_table(file, settings):
    form, y, columns, notes = understood(file, "Preis", **settings)
    assert (form.kind, form.unit, y[0]) == ("number", "€", 417012.90)
    assert list(columns) == ["Fläche", "Ort", "Baujahr", "Verkauft", "Steuer"]
    assert columns.iloc[1].tolist() == [83.2, "Köln", 1984, pd.Timestamp(2024, 8, 16), 8.4]
    assert columns["Ort"].isna().sum() == 5
    assert "Nr: left out, an identifier: it numbers the rows; --as 'Nr=number' uses it" in notes
    assert "Steuer: numbers in % from" in notes


@pytest.mark.parametrize("file", ["currency.csv", "packed.csv.gz"])
def test_currencies_percents_and_thousands(file):
    form, y, columns, notes = understood(file, "price")
    assert (form.kind, y[0], len(y)) == ("number", 708921, 40)  # and not 40 classes
    assert columns.iloc[1].tolist() == [83.2, pd.Timestamp(2024, 8, 16), 26, -2085.72]
    assert "change: numbers in $ from" in notes
    with pytest.raises(InvalidInput, match="40 different texts"):
        understood(file, "price", thousands="none")


def test_tabs():
    _, y, columns, _ = understood("tabs.tsv", "price")
    assert columns.iloc[1].tolist() == [83.2, "Köln"]
    assert y[1] == 226102


def test_texts_that_mean_missing():
    _, _, columns, notes = understood("missing.csv", "pay")
    assert columns.isna().sum().tolist() == [6, 8, 4]
    assert "age: numbers from 18 to 69, 15.0% of its values are missing" in notes
    assert "work: 3 texts, a column of zeros and ones each, 20.0% of its values are missing" in notes


def test_what_means_missing_can_be_said():
    for missing, words in (((), "'n/k' in row 9"), (("n/k",), "'unknown' in row 3, .* and 1 more")):
        with pytest.raises(InvalidInput, match=words):
            understood("mixed.csv", "y", missing=missing)
    _, y, columns, _ = understood("mixed.csv", "y", missing=("n/k", "unknown"))
    assert (len(y), columns["code"].isna().sum()) == (79, 2)
    _, _, columns, _ = understood("mixed.csv", "y", missing=("n/k",), types={"code": "text"})
    assert columns["code"][3] == "unknown"


def test_dates():
    _, _, columns, notes = understood("dates.csv", "y")
    assert columns["moment"][1] == pd.Timestamp("2024-08-16 01:30")
    assert columns["either"][1] == pd.Timestamp(2024, 2, 6)
    assert "either: dates" in notes
    assert "read with the month first; --dates '%d/%m/%Y' says otherwise" in notes
    _, _, columns, notes = understood("dates.csv", "y", dates="%d/%m/%Y")
    assert columns["either"][1] == pd.Timestamp(2024, 6, 2)
    assert columns["day"][1] == pd.Timestamp(2024, 8, 16)
    assert "first" not in notes
    _, _, columns, _ = understood("dates.csv", "y", types={"either": "text"})
    assert columns["either"][1] == "02/06/2024"


def test_identifiers_are_found_and_left_out_with_a_word():
    _, _, columns, notes = understood("ids.csv", "y")
    assert list(columns) == ["width"]
    for name in ("Unnamed: 0", "PassengerId", "order", "key_uuid", "store_id"):
        assert f"{name}: left out, an identifier" in notes
    _, _, columns, _ = understood("ids.csv", "y", types={"store_id": "text", "order": "number"})
    assert list(columns) == ["order", "store_id", "width"]
    assert sorted(columns["store_id"].unique()) == ["0", "1", "2", "3"]


def test_units_are_not_mixed():
    with pytest.raises(InvalidInput, match=r"'b': got numbers in '\$' and '€', expected one unit"):
        understood("units.csv", "y")


def test_many_texts_are_taken_as_means_of_the_target():
    _, _, _, notes = understood("many_texts.csv", "score")
    assert "person: 65 texts, taken as the mean of the target" in notes
    with pytest.raises(InvalidInput, match="65 different texts"):
        understood("many_texts.csv", "person")


def test_no_message_lists_hundreds_of_names():
    with pytest.raises(InvalidInput, match="and 188 more") as error:
        column(tables.read(FILES / "wide.csv"), "nothing", "--target")
    assert len(str(error.value)) < 500
    _, _, columns, notes = understood("wide.csv", "y")
    assert columns.shape == (30, 199)
    assert len(notes.splitlines()) == 200  # every column is listed


def test_names_that_are_there_twice_are_refused():
    with pytest.raises(InvalidInput, match="'a' twice"):
        tables.read(FILES / "duplicates.csv")


def test_letters_that_are_not_utf_8_are_told_of():
    with pytest.raises(InvalidInput, match="--encoding cp1252"):
        tables.read(FILES / "western.csv")


@pytest.fixture(scope="module")
def european(tmp_path_factory):
    folder = tmp_path_factory.mktemp("european") / "run"
    said = command(
        "fit", FILES / "european.csv", "--target", "Preis", "--out", folder, "--budget", 60, "--method", "ae"
    )
    assert "semicolons between fields, decimal commas" in said
    assert "Steuer: numbers in %" in said
    return folder


def test_predictions_as_parquet_and_packed(european, tmp_path):
    command("predict", european, FILES / "european.csv", "--out", tmp_path / "p.parquet")
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert list(found) == ["row", "mean", "std", "low", "high", "epistemic_std", "aleatoric_std"]
    command("predict", european, FILES / "european.csv", "--out", tmp_path / "p.csv.gz")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "p.csv.gz"), found)
    assert "ends in .csv" in command("predict", european, FILES / "european.csv", "--out", tmp_path / "p.xlsx", code=2)


def test_new_rows_are_read_as_those_of_training(european, tmp_path):
    """A file that does not tell its decimal sign has that of training; one that tells another has its own."""
    model = tables.load(european)
    head = "Fläche;Ort;Baujahr;Verkauft;Steuer\n"
    (tmp_path / "unclear.csv").write_text(head + "141;Ulm;1971;18.01.2023;7\n")
    assert model.read(tmp_path / "unclear.csv").attrs["decimal"] == ","
    (tmp_path / "point.csv").write_text(head + "141.9;Ulm;1971;18.01.2023;7.3 %\n")
    (tmp_path / "comma.csv").write_text(head + "141,9;Ulm;1971;18.01.2023;7,3 %\n")
    one, other = (model.predict(model.read(tmp_path / f"{name}.csv"))[0] for name in ("point", "comma"))
    pd.testing.assert_frame_equal(one, other)
    (tmp_path / "dollar.csv").write_text(head + "141,9;Ulm;1971;18.01.2023;$7\n")
    said = command("predict", european, tmp_path / "dollar.csv", "--out", tmp_path / "x.csv", code=2)
    assert "'$7' in row 0, counted from 0, expected numbers in '%'" in said
    (tmp_path / "date.csv").write_text(head + "141,9;Ulm;1971;2023-01-18;7\n")
    assert "expected a date" in command("predict", european, tmp_path / "date.csv", "--out", tmp_path / "x.csv", code=2)


def test_runs_and_report_say_what_is_predicted_and_with_which_noise(european):
    said = command("runs", european.parent)
    assert "Preis: normal, constant" in said
    assert "HeteroscedasticNormal" not in said
    command("report", european)
    page = (european / "report" / "report.html").read_text()
    assert "<dt>Target</dt><dd>Preis (€)</dd>" in page
    assert "<dd>normal, with one standard deviation for all rows</dd>" in page


def test_a_model_of_a_table_is_loaded_as_it_was(european):
    model = tables.load(european)
    table = model.read(FILES / "european.csv")
    assert model.estimator.encoder_ == type(model.estimator.encoder_).from_json(model.estimator.encoder_.to_json())
    assert {"Fläche", "Ort = Köln", "Ort is missing", "Verkauft", "Verkauft: year (cos)"} <= set(model.features)
    mean = model.predict(table)[0]["mean"]
    truth = model._truth(table)
    assert np.corrcoef(mean, truth)[0, 1] > 0.5
    assert model._data(table).rows == 40


def test_names_with_brackets_and_texts_like_formulas(tmp_path):
    """Rich would take [/m2] for markup, and a spreadsheet =1+1 for a formula."""
    quick = ("--budget", 30, "--method", "ae")
    for target, out in (("price [/m2]", "numbers"), ("[bold]kind", "classes")):
        folder = tmp_path / "[/x]" / out
        said = command("fit", FILES / "markup.csv", "--target", target, "--out", folder, *quick)
        assert f"predicts │ {target}" in said
        command("report", folder, "--data", FILES / "markup.csv")
        command("predict", folder, FILES / "markup.csv", "--out", folder / "p[/b].csv")
    content = (folder / "p[/b].csv").read_text()
    assert content.startswith("row,predicted,p_=1+1,p_@home,entropy")
    assert set(pd.read_csv(folder / "p[/b].csv")["predicted"]) <= {"'=1+1", "'@home"}
    said = command("fit", FILES / "markup.csv", "--target", "[/m]", "--out", folder, code=2)
    assert "one of the columns 'size [/m2]'" in said
