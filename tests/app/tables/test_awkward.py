"""Real files as the world writes them, in the folder `files`: what is understood, and what is said of it."""

import re
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from anchorwalk.app import tables
from anchorwalk.app.cli import app
from anchorwalk.app.tables import prepare
from anchorwalk.app.tables.columns import Form, Options
from anchorwalk.app.tables.numbers import number
from anchorwalk.app.tables.reading import column
from anchorwalk.errors import InvalidInput
from anchorwalk.integrations.sklearn.encoding import Encoder

FILES = Path(__file__).parent / "files"


FAR = pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 reads no dates beyond 2262: they are refused")


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


def test_long_whole_numbers_are_identifiers_and_measurements_of_any_size_are_not():
    _, _, columns, notes = understood("long_numbers.csv", "y")
    assert list(columns) == ["density", "n"]  # 1.27e+20; and 1000, 2000, ..., which rise but do not count the rows
    for name in ("code", "person", "serial"):  # one by one, with gaps and twice each, beyond 64 bits
        assert f"{name}: left out, an identifier: whole numbers of 16 digits and more" in notes
    assert "n: numbers from 1000 to 40000" in notes


def test_separators_are_found_by_rows_too():
    _, y, columns, _ = understood("commas_in_names.csv", "Preis, EUR")
    assert columns.iloc[1].tolist() == [33.5, "Ulm"]
    assert y[1] == 1017.25


def test_only_ends_of_lines_end_a_line(tmp_path):
    """A separator of lines within a text does not move the fields after it into other columns."""
    (tmp_path / "t.csv").write_text("town;a;note;b\nUlm;1.234;u\u2028;5.601,14\n", encoding="utf-8")
    table = tables.read(tmp_path / "t.csv", tables.Reading(usual=".", measured=("a",)))
    assert table.iloc[0].tolist() == ["Ulm", 1.234, "u", "5.601,14"]


def test_a_name_of_two_lines_is_one_line(tmp_path):
    (tmp_path / "t.csv").write_text('"size\n in m2", y\n1,2\n#DIV/0!,3\n')
    table = tables.read(tmp_path / "t.csv")
    assert list(table) == ["size in m2", "y"]
    assert table["size in m2"].isna().tolist() == [False, True]  # a formula that failed has no value


def test_what_spreadsheets_write_before_the_names():
    _, y, columns, _ = understood("spreadsheet.csv", "price")
    assert columns.iloc[1].tolist() == [33.5, "Ulm, Donau"]
    assert y[1] == 1017.25


def test_a_column_may_have_a_decimal_sign_of_its_own():
    form, y, columns, notes = understood("coordinates.csv", "Preis")
    assert (form.decimal, y[2]) == (",", 1095)
    assert "taken as a number (from 900 to 4702.5), read with decimal commas" in notes
    assert columns.iloc[1].tolist() == [47.637154, 10.1715]


def test_a_decimal_sign_that_is_not_clear_is_told(tmp_path):
    table = tables.read(FILES / "unclear.csv")
    assert (table["Preis"][0], table.attrs["sure"]) == (1.1, False)
    said = command("fit", FILES / "unclear.csv", "--target", "nothing", "--out", tmp_path / "x", code=2)
    assert "decimal points; --decimal ',' says otherwise" in said
    assert tables.read(FILES / "unclear.csv", tables.Reading(thousands=".")).attrs["decimal"] == ","
    _, y, _, _ = understood("unclear.csv", "Preis", decimal=",")
    assert y[0] == 1100
    for file in ("european.csv", "currency.csv"):
        assert tables.read(FILES / file).attrs["sure"]


def test_a_fault_in_a_column_is_named():
    """Rather than to make texts of all its numbers or dates."""
    with pytest.raises(InvalidInput, match=r"'age': got 'unknown' in row 5, .*a finite number"):
        understood("faults.csv", "y")
    with pytest.raises(InvalidInput, match=r"'since': got 'unknown' in row 7, .*a date"):
        understood("faults.csv", "y", drop=("age",))
    _, _, columns, _ = understood("faults.csv", "y", missing=("unknown",))
    assert columns.isna().sum().tolist() == [1, 1, 13]


def test_truth_values_are_classes_with_gaps_too():
    form, y, _, notes = understood("faults.csv", "flag", drop=("age", "since"))
    assert (form.kind, len(y)) == ("text", 27)
    assert "taken as 2 classes ('False', 'True')" in notes


def test_whole_numbers_as_dates():
    _, _, columns, notes = understood("days.csv", "y")
    assert "day: numbers from 20240101 to 20241224" in notes
    for settings in ({"types": {"day": "date"}}, {"dates": "%Y%m%d"}):
        _, _, columns, _ = understood("days.csv", "y", **settings)
        assert columns["day"][1] == pd.Timestamp(2024, 2, 2)
    for form in ("%d/%m/%Y", "%Q", "%d%d"):
        with pytest.raises(InvalidInput, match=r"--dates: got '%.*expected the format of all values of a column"):
            understood("days.csv", "y", dates=form)


@FAR
def test_a_date_beyond_pythons_is_told():
    table = pd.DataFrame({"a": ["-0", "2024-01-01", "2024-01-02"], "y": [1.0, 2.0, 3.0]})  # ISO 8601 has a year 0
    notes = prepare.features(table, tables.FitSettings(target="y", types={"a": "date"}), Options())[2]
    assert "a: dates from 0000-01-01 to 2024-01-02" in notes[0]


@pytest.mark.parametrize("kind", [None, "number", "date", "text"])
def test_an_empty_column_is_left_out_whatever_it_should_be(kind):
    table = pd.DataFrame({"a": [np.nan] * 3, "x": [1.0, 2.0, 4.0], "y": [1.0, 2.0, 3.0]})
    settings = tables.FitSettings(target="y", types={"a": kind} if kind else {})
    assert prepare.features(table, settings, Options())[2][0] == "a: left out, it is empty"


@FAR
def test_a_far_date_stays_far():
    _, y, columns, _ = understood("days.csv", "y")
    days = Encoder.choose(columns[["until"]], "auto", 0, 0).fit_transform(columns[["until"]], y)[:, 0]
    assert days[1] - days[0] == (date(9999, 12, 31) - date(2024, 5, 1)).days


NEW = {
    "numbers": pd.Series([1.5, 2.0]),
    "dates": pd.to_datetime(pd.Series(["2024-01-01", "2024-02-01"])),
    "days": pd.Series([20240101, 20240201]),
    "texts": pd.Series(["02/06/2024", "1,5"]),
    "far": pd.Series(["9999-12-31", "0001-01-01"]),
    "spans": pd.to_timedelta(pd.Series([1, 2]), unit="h"),
    "lists": pd.Series([[1], [2]]),
}


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        ("number", "numbers", [1.5, 2.0]),
        ("number", "dates", "'2024-01-01 00:00:00' in row 0, .*a finite number"),
        ("number", "spans", "values of the kind timedelta64"),
        ("number", "lists", "values of the kind mixed"),
        ("date", "dates", NEW["dates"].tolist()),
        ("date", "days", NEW["dates"].tolist()),
        pytest.param("date", "far", [datetime(9999, 12, 31), datetime(1, 1, 1)], marks=FAR),
        ("date", "numbers", "'1.5' in row 0, .*a date"),
        ("date", "texts", "'02/06/2024' in row 0, .*a date"),
    ],
)
def test_new_values_of_another_type_are_understood_or_refused(kind, values, found):
    form = Form("a", kind)
    if isinstance(found, list):
        assert form.typed(NEW[values], Options()).tolist() == found
        return
    with pytest.raises(InvalidInput, match=found):
        form.typed(NEW[values], Options())


def test_parquet_as_pandas_writes_it(tmp_path):
    """Its types with gaps, and its index: a column where it has a name, and else no count of the rows."""
    gaps = pd.DataFrame({"a": ["u", None, "v"] * 4, "b": [1, None, 3] * 4, "c": [True, None, False] * 4})
    frame = gaps.convert_dtypes().assign(y=np.arange(12.0)).set_axis(range(5, 17))
    frame.to_parquet(tmp_path / "t.parquet")
    table = tables.read(tmp_path / "t.parquet")
    assert table.index.tolist() == list(range(12))
    _, columns, notes = prepare.features(table, tables.FitSettings(target="y"), Options())
    assert "a: 3 texts" in notes[0]
    assert columns.isna().sum().tolist() == [4, 4, 4]
    frame.rename_axis("when").to_parquet(tmp_path / "t.parquet")
    assert tables.read(tmp_path / "t.parquet")["when"].tolist() == list(range(5, 17))
    for odd in ("spans", "lists"):
        NEW[odd].to_frame("a").assign(y=[1.0, 2.0]).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(InvalidInput, match="values of the kind"):
            prepare.features(tables.read(tmp_path / "t.parquet"), tables.FitSettings(target="y"), Options())


def test_left_out_columns_are_named_where_none_is_left():
    with pytest.raises(InvalidInput, match="b: left out, as you say; y: left out, as you say"):
        understood("units.csv", "a", drop=("b", "y"))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"separator": "::"}, "--separator: got '::', expected one sign"),
        ({"separator": ""}, "--separator: got ''"),
        ({"decimal": "x"}, "--decimal: got 'x'"),
        ({"thousands": "5"}, "--thousands: got '5'"),
        ({"thousands": ",", "decimal": ","}, "not the decimal sign"),
    ],
)
def test_signs_that_are_none_are_refused(option, words):
    with pytest.raises(InvalidInput, match=words):
        tables.Reading(**option)


def test_packed_files_that_are_not_whole_are_refused(tmp_path):
    whole = (FILES / "packed.csv.gz").read_bytes()
    for content in (whole[:400], whole[:60] + bytes([whole[60] ^ 255]) + whole[61:], b"a,y\n1,2\n"):
        (tmp_path / "p.csv.gz").write_bytes(content)
        with pytest.raises(InvalidInput, match="expected a file packed by gzip"):
            tables.read(tmp_path / "p.csv.gz")


def test_zero_bytes_are_told_of(tmp_path):
    (tmp_path / "t.csv").write_bytes("a,y\n1,2\n".encode("utf-16-le"))
    with pytest.raises(InvalidInput, match="--encoding utf-16-le"):
        tables.read(tmp_path / "t.csv")
    assert list(tables.read(tmp_path / "t.csv", tables.Reading(encoding="utf-16-le"))) == ["a", "y"]


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
    options = ("--budget", 60, "--method", "ae", "--noise", "constant")
    said = command("fit", FILES / "european.csv", "--target", "Preis", "--out", folder, *options)
    assert "semicolons between fields, decimal commas" in said
    assert 0 < said.index("Steuer: numbers in %") < said.index("spread")  # before what training says of itself
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
    (tmp_path / "unused.csv").write_text(head.replace("\n", ";note\n") + "1.141;Ulm;1971;18.01.2023;7;1.5\n")
    assert model.read(tmp_path / "unused.csv").attrs["decimal"] == ","
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
    size = re.search(r"\d+ kB", said)[0]
    narrow = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(app, ["runs", str(european.parent)])
    assert size in narrow.output  # texts are folded, numbers are whole
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
    assert model._data(table.assign(Preis=np.nan)).y is None  # a column for what is not known yet


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
