//! Results for programs: a line for all clients of each test, and one for each client.

use crate::results::{OpCounts, PointResult, Results, Row};

const HEAD: &str = "step,varies,repeat,test,from,to,clients,servers,size,concurrency,rate_limit,\
                    client,server,seconds,ops,ops_per_s,mib_per_s,mean_us,p50_us,p90_us,p99_us,\
                    p999_us,max_us,errors,silent,lost,sent_mean_us,sent_p50_us,sent_p90_us,\
                    sent_p99_us,sent_p999_us,sent_max_us,lost_ops,lost_age_max_s\n";

/// The document (RFC 4180, but with Unix line ends). `client` is `all`, or a NID; `server` is that
/// of a client with only one server. Unknown values are empty.
pub fn csv(results: &Results) -> String {
    let mut out = HEAD.to_owned();
    for point in &results.points {
        for row in &point.rows {
            out += &line(point, row, ("all", ""), &row.all);
            for client in &row.by_client {
                let server = client.server.map_or_else(String::new, |nid| nid.to_string());
                let ends = (client.nid.to_string(), server);
                out += &line(point, row, (&ends.0, &ends.1), &client.counted);
            }
        }
    }
    out
}

fn line(
    point: &PointResult,
    row: &Row,
    (client, server): (&str, &str),
    counted: &OpCounts,
) -> String {
    let varies: Vec<String> =
        point.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let (latency, sent) = (counted.latency_us, counted.latency_sent_us);
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    // If no client reported anything, the sum is unknown.
    let known = !row.by_client.is_empty();
    let cells = [
        quoted(&point.name),
        quoted(&varies.join(";")),
        (point.repeat + 1).to_string(),
        row.test.name().to_owned(),
        quoted(&row.from),
        quoted(&row.to),
        row.clients.to_string(),
        row.servers.to_string(),
        row.size.to_string(),
        row.concurrency.to_string(),
        row.rate_limit.to_string(),
        client.to_owned(),
        server.to_owned(),
        number(known.then_some(counted.seconds)),
        if known { counted.ops.to_string() } else { String::new() },
        number(known.then_some(counted.ops_per_s)),
        number(known.then_some(counted.mib_per_s)),
        number(latency.and_then(|l| l.mean)),
        number(latency.map(|l| l.p50)),
        number(latency.map(|l| l.p90)),
        number(latency.map(|l| l.p99)),
        number(latency.and_then(|l| l.p999)),
        number(latency.map(|l| l.max)),
        counted.errors.to_string(),
        row.silent.to_string(),
        row.lost.len().to_string(),
        number(sent.and_then(|l| l.mean)),
        number(sent.map(|l| l.p50)),
        number(sent.map(|l| l.p90)),
        number(sent.map(|l| l.p99)),
        number(sent.and_then(|l| l.p999)),
        number(sent.map(|l| l.max)),
        counted.lost_ops.to_string(),
        number(Some(counted.lost_age_max_s)),
    ];
    cells.join(",") + "\n"
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
