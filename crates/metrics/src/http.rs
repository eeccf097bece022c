//! HTTP: the head of a request, and the whole answer.

/// The longest head of a request, in bytes.
pub const HEAD_MAX: usize = 8192;

/// The most header lines of a request.
const HEADERS_MAX: usize = 64;

/// The media type of a page in the OpenMetrics format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of a page in the older format of Prometheus.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

const INDEX: &str = "<!DOCTYPE html><html lang=\"en\"><head><title>Lustrine</title></head><body>\
                     <h1>Lustrine</h1><p><a href=\"/metrics\">Metrics</a></p></body></html>\n";

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The metrics.
    Metrics(Body, ExpositionFormat),
    /// The index page, with a link to the metrics.
    Index(Body),
    /// Any other path.
    NotFound(Body),
    /// A method other than GET and HEAD.
    MethodNotAllowed,
    /// Not HTTP, or a head that is too long.
    Malformed,
}

/// How much of the answer is sent: all of it for GET, the head for HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The whole answer.
    Full,
    /// Its head.
    HeadOnly,
}

/// The text format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// OpenMetrics 1.0, for clients that accept it.
    OpenMetrics,
    /// The older format of Prometheus (0.0.4), for all other clients.
    Prometheus,
}

/// Reads a request; `None` while its head is incomplete.
pub fn read(head: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if head.len() < HEAD_MAX => return None,
        Ok(httparse::Status::Partial) | Err(_) => return Some(Request::Malformed),
    }
    let body = match request.method {
        Some("GET") => Body::Full,
        Some("HEAD") => Body::HeadOnly,
        _ => return Some(Request::MethodNotAllowed),
    };
    Some(match path(request.path.unwrap_or_default()) {
        "/metrics" => Request::Metrics(body, format(request.headers)),
        "/" => Request::Index(body),
        _ => Request::NotFound(body),
    })
}

fn format(headers: &[httparse::Header<'_>]) -> ExpositionFormat {
    let accepts = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let texts = accepts.filter_map(|header| std::str::from_utf8(header.value).ok());
    let mut kinds = texts.flat_map(|text| text.split([',', ';'])).map(str::trim);
    match kinds.any(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text")) {
        true => ExpositionFormat::OpenMetrics,
        false => ExpositionFormat::Prometheus,
    }
}

/// Converts a page from OpenMetrics to the older format: a counter has the name of its series
/// there, with `_total`, and the page has no end mark.
fn to_prometheus(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut help = None;
    for line in page.lines() {
        if line.starts_with("# HELP ") {
            help = Some(line);
            continue;
        }
        let counter = line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter"));
        if let Some(help) = help.take() {
            text += &match counter {
                Some(name) => help.replacen(name, &format!("{name}_total"), 1),
                None => help.to_owned(),
            };
            text.push('\n');
        }
        match counter {
            Some(name) => text += &format!("# TYPE {name}_total counter\n"),
            None if line == "# EOF" => {}
            None => {
                text += line;
                text.push('\n');
            }
        }
    }
    text
}

/// The path of a request target, which proxies send with scheme and host (RFC 9112, 3.2.2); without
/// the query.
fn path(target: &str) -> &str {
    let (scheme, rest) = target.split_at_checked("http://".len()).unwrap_or_default();
    let path = if scheme.eq_ignore_ascii_case("http://") {
        rest.find(['/', '?']).map_or("", |start| &rest[start..])
    } else {
        target
    };
    match path.split('?').next() {
        // An empty path after a host is the root (RFC 9110, 4.2.3).
        Some("") if path.len() < target.len() => "/",
        path => path.unwrap_or_default(),
    }
}

/// The whole answer to a request. `metrics` is called only for a request of the metrics.
pub fn answer<T: AsRef<str>>(
    request: Request,
    metrics: impl FnOnce() -> Result<T, String>,
) -> Vec<u8> {
    match request {
        Request::Metrics(body, format) => match (metrics(), format) {
            (Ok(page), ExpositionFormat::OpenMetrics) => {
                response("200 OK", OPEN_METRICS, page.as_ref(), body)
            }
            (Ok(page), ExpositionFormat::Prometheus) => {
                response("200 OK", PROMETHEUS, &to_prometheus(page.as_ref()), body)
            }
            (Err(why), _) => response("503 Service Unavailable", PLAIN, &(why + "\n"), body),
        },
        Request::Index(body) => response("200 OK", HTML, INDEX, body),
        Request::NotFound(body) => {
            response("404 Not Found", PLAIN, "not found; the metrics are at /metrics\n", body)
        }
        Request::MethodNotAllowed => response(
            "405 Method Not Allowed\r\nAllow: GET, HEAD",
            PLAIN,
            "only GET and HEAD are supported\n",
            Body::Full,
        ),
        Request::Malformed => response("400 Bad Request", PLAIN, "not HTTP/1.1\n", Body::Full),
    }
}

fn response(status: &str, kind: &str, text: &str, body: Body) -> Vec<u8> {
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    if body == Body::Full {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_read_when_its_head_is_complete() {
        let get = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..get.len() {
            assert_eq!(read(&get[..end]), None, "{end}");
        }
        assert_eq!(read(get), Some(Request::Metrics(Body::Full, ExpositionFormat::Prometheus)));
        assert_eq!(read(b"HEAD / HTTP/1.0\n\n"), Some(Request::Index(Body::HeadOnly)));
        for (target, wanted) in [
            ("http://a:9909/metrics", Request::Metrics(Body::Full, ExpositionFormat::Prometheus)),
            (
                "HTTP://[::1]/metrics?x=/",
                Request::Metrics(Body::Full, ExpositionFormat::Prometheus),
            ),
            ("http://a", Request::Index(Body::Full)),
            ("http://a?/metrics", Request::Index(Body::Full)),
            ("http://a/etc/metrics", Request::NotFound(Body::Full)),
            ("http:/metrics", Request::NotFound(Body::Full)),
            ("//a/metrics", Request::NotFound(Body::Full)),
            ("*", Request::NotFound(Body::Full)),
            ("?x", Request::NotFound(Body::Full)),
        ] {
            let request = format!("GET {target} HTTP/1.1\r\n\r\n");
            assert_eq!(read(request.as_bytes()), Some(wanted), "{target}");
        }
        for (accept, format) in [
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2",
                ExpositionFormat::OpenMetrics,
            ),
            (
                "text/plain;q=0.5, APPLICATION/OpenMetrics-Text ;q=0.4",
                ExpositionFormat::OpenMetrics,
            ),
            ("text/plain;version=0.0.4", ExpositionFormat::Prometheus),
            ("*/*", ExpositionFormat::Prometheus),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\naccept: {accept}\r\n\r\n");
            assert_eq!(read(request.as_bytes()), Some(Request::Metrics(Body::Full, format)));
        }
        assert_eq!(read(b"GET /etc HTTP/1.1\r\n\r\n"), Some(Request::NotFound(Body::Full)));
        assert_eq!(read(b"POST /metrics HTTP/1.1\r\n\r\n"), Some(Request::MethodNotAllowed));
        assert_eq!(read(b"\x16\x03\x01"), Some(Request::Malformed));
        assert_eq!(read(&[b'a'; HEAD_MAX]), Some(Request::Malformed), "too long");
        let many = "a: b\r\n".repeat(HEADERS_MAX + 1);
        let many = format!("GET / HTTP/1.1\r\n{many}\r\n");
        assert_eq!(read(many.as_bytes()), Some(Request::Malformed));
    }

    #[test]
    fn the_answer_to_head_has_the_length_of_the_body() {
        let page = || Ok::<_, String>("x 1\n");
        let whole = answer(Request::Metrics(Body::Full, ExpositionFormat::Prometheus), page);
        let head = answer(Request::Metrics(Body::HeadOnly, ExpositionFormat::Prometheus), page);
        assert_eq!(whole.strip_prefix(head.as_slice()), Some(&b"x 1\n"[..]));
        assert!(String::from_utf8(head).unwrap().contains("\r\nContent-Length: 4\r\n"));
        let none = answer(Request::Metrics(Body::Full, ExpositionFormat::Prometheus), || {
            Err::<&str, _>("why".to_owned())
        });
        assert!(none.starts_with(b"HTTP/1.1 503 ") && none.ends_with(b"\r\n\r\nwhy\n"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_incomplete(
            head in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            if let Some(wanted) = read(&head) {
                let said = answer(wanted, || Ok::<_, String>("page"));
                prop_assert!(said.starts_with(b"HTTP/1.1 "));
            }
        }
    }

    #[test]
    fn the_older_format_names_counters_with_total() {
        let page = "# HELP a_seconds Of a.\n# TYPE a_seconds counter\na_seconds_total 1.5\n\
                    # HELP b Of b.\n# TYPE b gauge\nb{c=\"# EOF\"} 2\n# EOF\n";
        let wanted = "# HELP a_seconds_total Of a.\n# TYPE a_seconds_total counter\n\
                      a_seconds_total 1.5\n# HELP b Of b.\n# TYPE b gauge\nb{c=\"# EOF\"} 2\n";
        assert_eq!(to_prometheus(page), wanted);
    }
}
