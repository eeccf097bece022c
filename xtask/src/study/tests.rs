use std::fs;

use super::*;

/// The repository's own study.
fn study() -> (Places, List, Results) {
    let places = Places::of(&root());
    let list = places.list().expect("the list");
    let results = Results::read_all(&list, &places.results).expect("the results");
    (places, list, results)
}

#[test]
fn results_belong_to_the_list_and_the_present_scenarios() {
    let (places, list, results) = study();
    for sweep in &list.sweeps {
        let name = &sweep.name;
        let kept = results.of(name).expect("every sweep has results");
        let again = format!("run cargo xtask study --only {name}");
        assert_eq!(kept.command, sweep.command(), "{name}: the list has changed: {again}");
        let scenario = fs::read_to_string(places.scenarios.join(&sweep.file)).expect(name);
        let digest = results::digest(&scenario);
        assert_eq!(kept.scenario, digest, "{} has changed: {again}", sweep.file);
        assert!(kept.runs.iter().all(|run| run.values.len() == kept.names.len()), "{name}");
    }
    for pair in &list.pairs {
        let kept = results.of(&pair.name).expect("every pair has results");
        let again = format!("run cargo xtask study --only {}", pair.name);
        assert_eq!(kept.scenario, pair.digest(), "the list has changed: {again}");
    }
}

#[test]
fn tables_and_plots_match_the_results() {
    let (places, list, results) = study();
    let page = fs::read_to_string(&places.page).expect("the page");
    let renewed = page::renewed(&page, |name| table::of(&list, &results, name)).expect("the page");
    assert!(renewed == page, "tables are old: run cargo xtask study --draw");
    for plot in &list.plots {
        let svg = plot::svg(plot, &results).expect(&plot.name);
        let drawn = fs::read_to_string(places.plot(&plot.name)).expect(&plot.name);
        assert!(svg == drawn, "{}.svg is old: run cargo xtask study --draw", plot.name);
    }
}

#[test]
fn the_page_shows_every_table_and_plot() {
    let (places, list, _) = study();
    let page = fs::read_to_string(&places.page).expect("the page");
    let shown = page::tables(&page);
    for table in &list.tables {
        assert!(shown.contains(&table.name.as_str()), "table {} is not on the page", table.name);
    }
    for plot in &list.plots {
        let file = format!("]({}.svg)", plot.name);
        assert!(page.contains(&file), "plot {} is not on the page", plot.name);
    }
}
