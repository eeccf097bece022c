//! Draws the plots of the list from results.

use anyhow::{Context, Result, ensure};

use super::drawing::{self, Curve, Dot, Drawing, Look};
use super::list::{Line, Plot};
use super::results::Results;

/// A plot as SVG.
pub(super) fn svg(plot: &Plot, results: &Results) -> Result<String> {
    let curve = |line: &Line| curve(plot, line, results);
    let curves = plot.lines.iter().map(curve).collect::<Result<Vec<Curve>>>();
    let dots = plot.marks.iter().map(|mark| Dot {
        name: mark.name.clone(),
        at: (mark.x, mark.y),
        colour: mark.colour,
    });
    Ok(drawing::svg(&Drawing {
        title: plot.title.clone(),
        x: plot.x.1.clone(),
        y: plot.y.1.clone(),
        curves: curves.with_context(|| format!("plot {}", plot.name))?,
        dots: dots.collect(),
        levels: plot.levels.clone(),
    }))
}

fn curve(plot: &Plot, line: &Line, results: &Results) -> Result<Curve> {
    let sweep = results.of(&line.sweep)?;
    let mut points = Vec::new();
    for run in sweep.select(&line.only)? {
        let x = sweep.value(run, &plot.x.0)?;
        let x: f64 = x.parse().with_context(|| format!("{}: {x:?}", plot.x.0))?;
        points.push((x, run.metric(line.metric.unwrap_or(plot.y.0))));
    }
    ensure!(points.is_sorted_by(|a, b| a.0 < b.0), "{}: several runs at one place", line.name);
    let usual = if line.metric.is_some() { Look::Dashed } else { Look::Solid };
    let look = line.look.unwrap_or(usual);
    Ok(Curve { name: line.name.clone(), points, look, colour: line.colour })
}
