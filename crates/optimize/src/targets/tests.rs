use super::{ALL, Target};

#[test]
fn targets_are_sorted_by_name() {
    assert!(ALL.is_sorted_by_key(|spec| spec.name));
    for target in Target::all() {
        assert_eq!(Target::find(target.name), Some(target));
    }
    assert_eq!(Target::find("nothing"), None);
}

#[test]
fn opsets_are_in_order() {
    for target in Target::all() {
        assert!(target.lowest_opset <= target.opset, "{target}");
        assert!(target.opset <= target.newest_opset, "{target}");
    }
}
