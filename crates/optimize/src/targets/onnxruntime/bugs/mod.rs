//! Bugs of onnxruntime, one file and one program each.

mod added_zero;
mod axes_from_the_end;
mod cast_after_transpose;
mod double_silu;
mod half_product;
mod nested_conditions;
mod pad_before_max_pool;
mod power_before_mean;
mod relu_before_clip;
mod scaled_product;
mod scan_of_no_rows;
mod unrounded_equality;

use crate::targets::Bug;

pub(in crate::targets) static BUGS: [&Bug; 12] = [
    &added_zero::BUG,
    &axes_from_the_end::BUG,
    &cast_after_transpose::BUG,
    &double_silu::BUG,
    &half_product::BUG,
    &nested_conditions::BUG,
    &pad_before_max_pool::BUG,
    &power_before_mean::BUG,
    &relu_before_clip::BUG,
    &scaled_product::BUG,
    &scan_of_no_rows::BUG,
    &unrounded_equality::BUG,
];

#[cfg(test)]
mod tests {
    use super::BUGS;
    use crate::Target;
    use crate::legalize::testing;
    use std::path::Path;

    fn program(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/targets/onnxruntime/bugs");
        std::fs::read_to_string(folder.join("programs").join(format!("{name}.onnxtxt"))).unwrap()
    }

    #[test]
    fn programs_that_show_a_bug_are_changed() {
        for bug in BUGS {
            let text = program(bug.name);
            let plain = testing::legalized_text(&text, Target::any());
            assert_ne!(plain, testing::legalized_text(&text, Target::default()), "{}", bug.name);
        }
    }
}
