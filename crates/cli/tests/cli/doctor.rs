use crate::{output, run};

#[test]
fn the_standalone_program_reports_itself() {
    let text = output(&["doctor"]);
    let version = format!("{} (standalone program", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "{text}");
    assert!(text.contains(std::env::consts::ARCH), "{text}");
    assert!(text.contains("opsets    9 to 28"), "{text}");
    assert!(!text.contains('/'), "no paths: {text}");
}

#[test]
fn the_report_is_available_as_json() {
    let report: serde_json::Value = serde_json::from_str(&output(&["doctor", "--json"])).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["opsets"], serde_json::json!([9, 28]));
    assert!(report["python"].is_null());
    assert_eq!(run(&["doctor", "now"]).status, 2);
}
