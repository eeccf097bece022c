//! The head of an HTTP request, and the answer to it.

/// Longest head of a request, in bytes.
pub(super) const HEAD_MAX: usize = 8192;

/// Most header lines of a request.
const HEADERS_MAX: usize = 64;

/// What the metrics' page is called in HTTP.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The same for scrapers that do not ask for that.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

const FRONT: &str = "<!DOCTYPE html><html lang=\"en\"><head><title>Lustrine</title></head><body>\
                     <h1>Lustrine</h1><p><a href=\"/metrics\">Metrics</a></p></body></html>\n";

/// What a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The metrics.
    Metrics(Body, Form),
    /// The page that leads there.
    Front(Body),
    /// What is not here.
    Nothing(Body),
    /// What is not done here.
    Forbidden,
    /// Nobody knows what.
    Nonsense,
}

/// Whether the answer's body is wanted (GET) or its head alone (HEAD).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Wanted,
    Left,
}

/// In which text format metrics are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// OpenMetrics 1.0, for whoever says that he knows it.
    Open,
    /// The format of Prometheus before that, which everybody reads.
    Classic,
}

/// Reads a request; `None` while its head is not whole.
pub(super) fn read(head: &[u8]) -> Option<Wanted> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if head.len() < HEAD_MAX => return None,
        Ok(httparse::Status::Partial) | Err(_) => return Some(Wanted::Nonsense),
    }
    let body = match request.method {
        Some("GET") => Body::Wanted,
        Some("HEAD") => Body::Left,
        _ => return Some(Wanted::Forbidden),
    };
    Some(match path(request.path.unwrap_or_default()) {
        "/metrics" => Wanted::Metrics(body, form(request.headers)),
        "/" => Wanted::Front(body),
        _ => Wanted::Nothing(body),
    })
}

fn form(headers: &[httparse::Header<'_>]) -> Form {
    let accepts = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let texts = accepts.filter_map(|header| std::str::from_utf8(header.value).ok());
    let mut kinds = texts.flat_map(|text| text.split([',', ';'])).map(str::trim);
    match kinds.any(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text")) {
        true => Form::Open,
        false => Form::Classic,
    }
}

/// A page of OpenMetrics in the classic format: a counter is called there what its series are
/// called, and the page ends where it ends.
fn classic(page: &str) -> String {
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

/// The path in what is asked for: after a scheme and whose it is, as proxies ask (RFC 9112, 3.2.2),
/// and without a query.
fn path(target: &str) -> &str {
    let (scheme, rest) = target.split_at_checked("http://".len()).unwrap_or_default();
    let path = if scheme.eq_ignore_ascii_case("http://") {
        rest.find(['/', '?']).map_or("", |start| &rest[start..])
    } else {
        target
    };
    match path.split('?').next() {
        // There, nothing is the same as the root (RFC 9110, 4.2.3).
        Some("") if path.len() < target.len() => "/",
        path => path.unwrap_or_default(),
    }
}

/// The whole answer. `metrics` is asked for only when they are wanted.
pub(super) fn answer<T: AsRef<str>>(
    wanted: Wanted,
    metrics: impl FnOnce() -> Result<T, String>,
) -> Vec<u8> {
    match wanted {
        Wanted::Metrics(body, form) => match (metrics(), form) {
            (Ok(page), Form::Open) => response("200 OK", OPEN_METRICS, page.as_ref(), body),
            (Ok(page), Form::Classic) => response("200 OK", CLASSIC, &classic(page.as_ref()), body),
            (Err(why), _) => response("503 Service Unavailable", PLAIN, &(why + "\n"), body),
        },
        Wanted::Front(body) => response("200 OK", HTML, FRONT, body),
        Wanted::Nothing(body) => {
            response("404 Not Found", PLAIN, "not here: metrics are at /metrics\n", body)
        }
        Wanted::Forbidden => response(
            "405 Method Not Allowed\r\nAllow: GET, HEAD",
            PLAIN,
            "only GET and HEAD\n",
            Body::Wanted,
        ),
        Wanted::Nonsense => response("400 Bad Request", PLAIN, "not HTTP/1.1\n", Body::Wanted),
    }
}

fn response(status: &str, kind: &str, text: &str, body: Body) -> Vec<u8> {
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    if body == Body::Wanted {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_read_when_they_are_whole() {
        let get = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..get.len() {
            assert_eq!(read(&get[..end]), None, "{end}");
        }
        assert_eq!(read(get), Some(Wanted::Metrics(Body::Wanted, Form::Classic)));
        assert_eq!(read(b"HEAD / HTTP/1.0\n\n"), Some(Wanted::Front(Body::Left)));
        for (target, wanted) in [
            ("http://a:9909/metrics", Wanted::Metrics(Body::Wanted, Form::Classic)),
            ("HTTP://[::1]/metrics?x=/", Wanted::Metrics(Body::Wanted, Form::Classic)),
            ("http://a", Wanted::Front(Body::Wanted)),
            ("http://a?/metrics", Wanted::Front(Body::Wanted)),
            ("http://a/etc/metrics", Wanted::Nothing(Body::Wanted)),
            ("http:/metrics", Wanted::Nothing(Body::Wanted)),
            ("//a/metrics", Wanted::Nothing(Body::Wanted)),
            ("*", Wanted::Nothing(Body::Wanted)),
            ("?x", Wanted::Nothing(Body::Wanted)),
        ] {
            let asked = format!("GET {target} HTTP/1.1\r\n\r\n");
            assert_eq!(read(asked.as_bytes()), Some(wanted), "{target}");
        }
        for (accept, form) in [
            ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2", Form::Open),
            ("text/plain;q=0.5, APPLICATION/OpenMetrics-Text ;q=0.4", Form::Open),
            ("text/plain;version=0.0.4", Form::Classic),
            ("*/*", Form::Classic),
        ] {
            let asked = format!("GET /metrics HTTP/1.1\r\naccept: {accept}\r\n\r\n");
            assert_eq!(read(asked.as_bytes()), Some(Wanted::Metrics(Body::Wanted, form)));
        }
        assert_eq!(read(b"GET /etc HTTP/1.1\r\n\r\n"), Some(Wanted::Nothing(Body::Wanted)));
        assert_eq!(read(b"POST /metrics HTTP/1.1\r\n\r\n"), Some(Wanted::Forbidden));
        assert_eq!(read(b"\x16\x03\x01"), Some(Wanted::Nonsense));
        assert_eq!(read(&[b'a'; HEAD_MAX]), Some(Wanted::Nonsense), "too long");
        let many = "a: b\r\n".repeat(HEADERS_MAX + 1);
        let many = format!("GET / HTTP/1.1\r\n{many}\r\n");
        assert_eq!(read(many.as_bytes()), Some(Wanted::Nonsense));
    }

    #[test]
    fn the_head_says_how_long_the_body_is_also_without_it() {
        let page = || Ok::<_, String>("x 1\n");
        let whole = answer(Wanted::Metrics(Body::Wanted, Form::Classic), page);
        let head = answer(Wanted::Metrics(Body::Left, Form::Classic), page);
        assert_eq!(whole.strip_prefix(head.as_slice()), Some(&b"x 1\n"[..]));
        assert!(String::from_utf8(head).unwrap().contains("\r\nContent-Length: 4\r\n"));
        let none = answer(Wanted::Metrics(Body::Wanted, Form::Classic), || {
            Err::<&str, _>("why".to_owned())
        });
        assert!(none.starts_with(b"HTTP/1.1 503 ") && none.ends_with(b"\r\n\r\nwhy\n"));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_answered_or_waited_for(
            head in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            if let Some(wanted) = read(&head) {
                let said = answer(wanted, || Ok::<_, String>("page"));
                prop_assert!(said.starts_with(b"HTTP/1.1 "));
            }
        }
    }

    #[test]
    fn the_classic_format_calls_counters_by_their_whole_name() {
        let page = "# HELP a_seconds Of a.\n# TYPE a_seconds counter\na_seconds_total 1.5\n\
                    # HELP b Of b.\n# TYPE b gauge\nb{c=\"# EOF\"} 2\n# EOF\n";
        let wanted = "# HELP a_seconds_total Of a.\n# TYPE a_seconds_total counter\n\
                      a_seconds_total 1.5\n# HELP b Of b.\n# TYPE b gauge\nb{c=\"# EOF\"} 2\n";
        assert_eq!(classic(page), wanted);
    }
}
