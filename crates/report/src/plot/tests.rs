use super::*;
use crate::drawing::tests::assert_legible;
use crate::svg;

const FORMATS: [DrawingFormat<'_>; 2] = [
    DrawingFormat::Page,
    DrawingFormat::Slide { heading: "A step", foot: "plan p, of which is known a lot" },
];

fn plot(points: Vec<(f64, f64)>, scale: Scale) -> Plot {
    Plot {
        title: "a <b> & \"c\"".to_owned(),
        x: Axis::new("x", scale),
        y: Axis::new("y", scale),
        key: "<key>".to_owned(),
        lines: vec![Line {
            bars: points.iter().map(|(x, y)| (*x, y / 2.0, y * 2.0)).collect(),
            ..Line::new("<script>".to_owned(), points, LineStyle::Solid, 9)
        }],
    }
}

#[test]
fn positions_are_finite_for_all_points() {
    let odd = [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300, 5.0];
    for scale in [Scale::Linear, Scale::Log, Scale::Doubling] {
        for one in odd {
            for two in odd {
                let plot = plot(vec![(one, two), (two, one), (1.0, 1.0)], scale);
                let drawing = plot.drawing(DrawingFormat::Page).expect("one point can be shown");
                for svg in [svg::in_page(&drawing), svg::document(&drawing)] {
                    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{one} {two}: {svg}");
                    assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"));
                }
            }
        }
        assert!(plot(Vec::new(), scale).drawing(FORMATS[1]).is_none());
    }
}

#[test]
fn error_bars_have_two_ends_and_fit() {
    let mut plot = plot(vec![(1.0, 10.0), (2.0, 20.0)], Scale::Linear);
    plot.lines[0].bars = vec![(2.0, 5.0, 40.0)];
    let drawing = plot.drawing(DrawingFormat::Page).expect("a drawing");
    let bars: Vec<&Vec<(f64, f64)>> = drawing
        .shapes
        .iter()
        .filter_map(|shape| match shape {
            Shape::Path { points, pen } if pen.width == 1.2 => Some(points),
            _ => None,
        })
        .collect();
    let [low, stem, high] = bars[..] else { panic!("{bars:?}") };
    assert!(high[0].1 < low[0].1 && stem[..] == [(stem[0].0, low[0].1), (stem[0].0, high[0].1)]);
    assert!(bars.iter().flat_map(|bar| *bar).all(|(_, y)| (30.0..370.0).contains(y)), "{bars:?}");
}

#[test]
fn no_text_is_cut_or_over_another_one() {
    let names = |count: usize, long: &str| -> Vec<(f64, String)> {
        (0..count).map(|at| (at as f64, format!("{at}{long}"))).collect()
    };
    let x = |scale, names| Axis { names, ..Axis::new("a label of the axis", scale) };
    let wide: Vec<(f64, f64)> = (0..9).map(|at| (f64::from(1 << at), 123_456.0)).collect();
    let far = vec![(1e3, 1.0), (1e9, 1e9)];
    for (points, x) in [
        (wide.clone(), x(Scale::Doubling, Vec::new())),
        (far.clone(), x(Scale::Linear, Vec::new())),
        (far, x(Scale::Log, Vec::new())),
        (vec![(0.0, 1.0), (3.0, 2.0)], x(Scale::Linear, names(4, ""))),
        (vec![(0.0, 1.0), (29.0, 2.0)], x(Scale::Linear, names(30, ":1024 KiB"))),
        (vec![(0.0, 1.0), (299.0, 2.0)], x(Scale::Linear, names(300, ""))),
    ] {
        for scale in [Scale::Linear, Scale::Log] {
            for lines in [0, 1, 12, 40] {
                let name = |at| format!("read 1M from:to of a group with a long name, c{at}");
                let line = |at| Line::new(name(at), points.clone(), LineStyle::Solid, at);
                let unnamed = Line::new(String::new(), points.clone(), LineStyle::Dashed, 0);
                let plot = Plot {
                    title: "A title that says what is drawn, and of which tests it is".repeat(2),
                    x: x.clone(),
                    y: Axis::new("MiB/s; bars: all repetitions", scale),
                    key: "concurrency".to_owned(),
                    lines: (0..lines).map(line).chain([unnamed]).collect(),
                };
                for format in FORMATS {
                    assert_legible(&plot.drawing(format).expect("a drawing"));
                }
            }
        }
    }
}

#[test]
fn lines_that_have_no_name_in_the_legend_are_counted_there() {
    let line = |at: usize| Line::new(format!("line {at}"), vec![(1.0, 1.0)], LineStyle::Solid, at);
    let plot = Plot { lines: (0..40).map(line).collect(), ..plot(Vec::new(), Scale::Linear) };
    for format in FORMATS {
        let drawing = plot.drawing(format).expect("a drawing");
        let svg = svg::in_page(&drawing);
        let named = (0..40).filter(|at| svg.contains(&format!(">line {at}<"))).count();
        assert!(svg.contains(&format!("and {} more: see the table", 40 - named)), "{named}");
    }
}

#[test]
fn numbers_are_short() {
    let texts = [0.0, 0.0625, 2.5, 100.0, 12_500.0, 3_000_000.0].map(number);
    assert_eq!(texts, ["0", "0.0625", "2.5", "100", "12,500", "3,000,000"]);
}

#[test]
fn lines_that_look_like_one_are_found() {
    let line = |name: &str, rates: [f64; 2]| {
        let points = vec![(1.0, rates[0]), (2.0, rates[1])];
        Line::new(name.to_owned(), points, LineStyle::Solid, 0)
    };
    let lines =
        [line("c8", [100.0, 200.0]), line("c64", [102.0, 196.0]), line("c1", [100.0, 150.0])];
    assert_eq!(
        coinciding(&lines).as_deref(),
        Some("Lines that lie within 3 % of each other everywhere: c8 and c64.")
    );
    assert_eq!(coinciding(&lines[1..]), None);
}
