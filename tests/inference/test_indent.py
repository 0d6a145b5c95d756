"""What a line's leading blanks say of how a reply indents."""

import pytest

from inference.speculation.indent import SAME, Rule, rules, split_indent

TAB_TO_4 = Rule("\t", "    ", is_repeated=True)


@pytest.mark.parametrize(
    ("rule", "indent", "becomes"),
    [
        (SAME, " \t ", " \t "),
        (TAB_TO_4, "\t\t", " " * 8),
        (TAB_TO_4, "\t  ", " " * 6),
        (TAB_TO_4, "  ", "  "),
        (TAB_TO_4, "", ""),
        (Rule("    ", "  ", is_repeated=True), " " * 13, " " * 7),
        (Rule("", "    "), "  ", " " * 6),
        (Rule("    ", ""), " " * 6, "  "),
        (Rule("    ", ""), "  ", "  "),
    ],
)
def test_a_rule_is_applied_to_leading_blanks(rule: Rule, indent: str, becomes: str) -> None:
    assert rule.apply(indent) == becomes


@pytest.mark.parametrize(
    ("given", "emitted", "likeliest"),
    [
        ("    ", "    ", SAME),
        ("\t\t", " " * 8, TAB_TO_4),
        ("\t", "  ", Rule("\t", "  ", is_repeated=True)),
        (" " * 8, "\t\t", Rule("    ", "\t", is_repeated=True)),
        ("    ", " " * 8, Rule("", "    ")),
        ("", "  ", Rule("", "  ")),
        (" " * 8, "    ", Rule("    ", "")),
        ("\t", "\t\t", Rule("", "\t")),
    ],
)
def test_one_line_names_its_likeliest_rule_first(given: str, emitted: str, likeliest: Rule) -> None:
    found = list(rules(given, emitted))
    assert found[0] == likeliest
    assert all(rule.apply(given) == emitted for rule in found)


def test_spaces_may_have_been_counted_in_other_units() -> None:
    assert Rule("    ", "  ", is_repeated=True) in rules(" " * 8, " " * 4)
    assert Rule("  ", "    ", is_repeated=True) in rules(" " * 4, " " * 8)


@pytest.mark.parametrize(("given", "emitted"), [("\t ", "  \t"), ("    ", "\t\t\t"), (" " * 5, "  \t")])
def test_what_no_rule_makes_is_left_alone(given: str, emitted: str) -> None:
    assert all(rule.apply(given) == emitted for rule in rules(given, emitted))


def test_a_line_is_parted_into_blanks_and_words() -> None:
    assert split_indent("\t  if x: \r\n") == ("\t  ", "if x:")
    assert split_indent("   \n") == ("", "")
    assert split_indent("") == ("", "")
