//! The shared vectors, and properties over generated values. The pure-Python form reads the same vectors in
//! `tests/unit/test_json_vectors.py`; what is asserted on both sides is the contract.

use proptest::prelude::*;
use serde_json::Value;

use super::{canonical_text, storable_text};

const VECTORS: &str = include_str!("../../tests/vectors/json.json");
const MEBIBYTE: usize = 1 << 20;

/// What a refusal of each kind says, in words that stand in no other.
const REASONS: [(&str, &str); 7] = [
    ("duplicate_key", "two members of this key"),
    ("not_finite", "must be finite"),
    ("surrogate", "lone surrogate"),
    ("syntax", "not valid JSON"),
    ("depth", "nested deeper"),
    ("size", "bytes as JSON"),
    ("integer_size", "integer of more than"),
];

fn vectors(kind: &str) -> Vec<Value> {
    let mut all: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    match all[kind].take() {
        Value::Array(vectors) if !vectors.is_empty() => vectors,
        other => panic!("{kind}: {other}"),
    }
}

fn text<'vector>(vector: &'vector Value, field: &str) -> &'vector str {
    vector[field].as_str().expect("a string")
}

fn limit(vector: &Value) -> usize {
    vector["limit"].as_u64().map_or(MEBIBYTE, |limit| usize::try_from(limit).expect("small"))
}

#[test]
fn accepted_texts_take_the_canonical_form_and_keep_it() {
    for vector in vectors("accepted") {
        let canonical = text(&vector, "canonical");
        for source in [text(&vector, "text"), canonical] {
            assert_eq!(canonical_text(source, limit(&vector)).as_deref(), Ok(canonical), "{vector}");
        }
    }
}

#[test]
fn refused_texts_name_the_place_and_the_reason() {
    for vector in vectors("refused") {
        let refusal = canonical_text(text(&vector, "text"), limit(&vector)).expect_err(text(&vector, "name"));
        let reason = text(&vector, "reason");
        let words = REASONS.iter().find(|(name, _)| *name == reason).expect("a known reason").1;
        assert!(refusal.problem.contains(words), "{vector}: {refusal:?}");
        assert_eq!(refusal.path, text(&vector, "path"), "{vector}: {refusal:?}");
    }
}

#[test]
fn equal_and_different_texts_are_told_apart() {
    for (kind, equal) in [("equal", true), ("different", false)] {
        for pair in vectors(kind) {
            let [left, right] =
                [0, 1].map(|side| canonical_text(pair[side].as_str().expect("a string"), MEBIBYTE).expect("accepted"));
            assert_eq!(left == right, equal, "{pair}");
        }
    }
}

#[test]
fn syntax_errors_name_line_and_column_in_characters() {
    let refusal = canonical_text("{\n  \"é\": 1,\n  \"éé\": x\n}", MEBIBYTE).expect_err("refused");
    assert_eq!(refusal.path, "$[\"éé\"]");
    assert_eq!(refusal.problem, "not valid JSON at line 3, column 9: expected a value");
}

#[test]
fn error_texts_lose_only_what_no_store_keeps() {
    assert_eq!(storable_text("plain é\n"), "plain é\n");
    assert_eq!(storable_text("a\0b\0"), "a\u{fffd}b\u{fffd}");
}

/// Python's `repr` by another road: the fewest digits that, rounded correctly, read back to the same double, with the
/// point placed by Rust's own fixed notation.
fn python_repr(value: f64) -> String {
    let scientific = (0..17)
        .map(|precision| format!("{value:.precision$e}"))
        .find(|text| text.parse() == Ok(value))
        .expect("17 digits suffice");
    let (mantissa, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    if (-4..16).contains(&exponent) {
        let digits = i32::try_from(mantissa.trim_start_matches('-').replace('.', "").len()).expect("few");
        let decimals = usize::try_from((digits - 1 - exponent).max(1)).expect("positive");
        return format!("{value:.decimals$}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| if float.is_finite() { float.into() } else { Value::Null }),
        any::<String>().prop_map(Value::from),
        "[\u{0}-\u{ff}\"\\\\]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 128, 10, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..10).prop_map(Value::from),
            prop::collection::vec((("[\u{0}-\u{23}\\\\a-c\u{e000}\u{1f600}]{0,4}"), inner), 0..10)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn floats_round_trip_in_pythons_notation(value in any::<f64>()) {
        // Next to a power of two the shortest digits need not be the correctly rounded ones; the vectors hold those.
        prop_assume!(value.is_finite() && value.to_bits().trailing_zeros() < 52);
        let canonical = canonical_text(&format!("{value:e}"), 64);
        let canonical = canonical.expect("finite");
        prop_assert_eq!(canonical.parse::<f64>().expect("a number").to_bits(), value.to_bits());
        prop_assert_eq!(&canonical, &python_repr(value));
    }

    /// Doubles with few decimals, where ties are found.
    #[test]
    fn ties_go_to_the_even_digit(odd in 1_i64 << 50..1 << 53, halvings in 0_i32..40) {
        #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
        let value = (odd | 1) as f64 / 2_f64.powi(halvings);
        prop_assert_eq!(canonical_text(&format!("{value:e}"), 64), Ok(python_repr(value)));
    }

    #[test]
    fn the_form_keeps_the_value_and_is_its_own_form(value in values()) {
        let spaced = serde_json::to_string_pretty(&value).expect("serialisable");
        let canonical = canonical_text(&spaced, MEBIBYTE).expect("storable");
        prop_assert_eq!(canonical_text(&canonical, canonical.len()), Ok(canonical.clone()));
        prop_assert!(canonical_text(&canonical, canonical.len() - 1).is_err());
        prop_assert_eq!(serde_json::from_str::<Value>(&canonical).expect("JSON"), value);
    }

    #[test]
    fn whatever_is_accepted_is_json_to_others_too(text in "[\\[\\]{}:,\"\\\\ \nunltrefas0-9.eE+é\u{1}-]{0,24}") {
        match (canonical_text(&text, MEBIBYTE), serde_json::from_str::<Value>(&text)) {
            (Ok(_), other) => prop_assert!(other.is_ok(), "{:?}", text),
            (Err(refusal), Ok(value)) => {
                let told = !refusal.problem.contains("not valid JSON");
                prop_assert!(told, "{:?} is {} but: {:?}", text, value, refusal);
            }
            (Err(refusal), Err(_)) => {
                prop_assert!(!refusal.path.chars().any(char::is_control));
            }
        }
    }
}
