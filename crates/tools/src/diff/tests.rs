use proptest::prelude::*;

use super::*;

#[test]
fn the_format_is_that_of_diff() {
    let before = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n";
    let after = "a\nb\nc\nd\nE\nf\ng\nh\ni\nj\nk\nl\nm\n";
    let wanted = "--- old\n+++ new\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n\
                  @@ -10,3 +10,4 @@\n j\n k\n l\n+m\n";
    assert_eq!(unified(before, after, ("old", "new")), wanted);
    assert_eq!(unified(before, before, ("old", "new")), "");
    // Differences that are close together are shown together.
    let near = before.replace('b', "B").replace('f', "F");
    assert_eq!(unified(before, &near, ("old", "new")).matches("@@ -").count(), 1);
}

proptest! {
    /// The difference, applied to one text, gives the other.
    #[test]
    fn it_holds_all_differences(
        before in prop::collection::vec(0_u8..5, 0..40),
        after in prop::collection::vec(0_u8..5, 0..40),
    ) {
        let text = |numbers: &[u8]| numbers.iter().map(|n| format!("{n}\n")).collect::<String>();
        let (before, after) = (text(&before), text(&after));
        let (old, new): (Vec<&str>, Vec<&str>) =
            (before.lines().collect(), after.lines().collect());
        let lines = aligned(&old, &new);
        let side = |of: fn(&Line<'_>) -> bool| -> Vec<String> {
            let text = |line: &Line<'_>| match line {
                Line::Same(text) | Line::Gone(text) | Line::New(text) => (*text).to_owned(),
            };
            lines.iter().filter(|line| of(line)).map(text).collect()
        };
        prop_assert_eq!(side(|line| !matches!(line, Line::New(_))), old);
        prop_assert_eq!(side(|line| !matches!(line, Line::Gone(_))), new);
        let shown = unified(&before, &after, ("a", "b"));
        prop_assert_eq!(shown.is_empty(), before == after);
    }
}
