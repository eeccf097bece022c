//! The head of an HTTP request, and the answer to it.

/// Longest head of a request, in bytes.
pub(super) const HEAD_MAX: usize = 8192;

/// Most header lines of a request.
const HEADERS_MAX: usize = 64;

/// What the metrics' page is called in HTTP.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

const FRONT: &str = "<!DOCTYPE html><html lang=\"en\"><head><title>Lustrine</title></head><body>\
                     <h1>Lustrine</h1><p><a href=\"/metrics\">Metrics</a></p></body></html>\n";

/// What a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The metrics.
    Metrics(Body),
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
        "/metrics" => Wanted::Metrics(body),
        "/" => Wanted::Front(body),
        _ => Wanted::Nothing(body),
    })
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
        Wanted::Metrics(body) => match metrics() {
            Ok(page) => response("200 OK", OPEN_METRICS, page.as_ref(), body),
            Err(why) => response("503 Service Unavailable", PLAIN, &(why + "\n"), body),
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
        assert_eq!(read(get), Some(Wanted::Metrics(Body::Wanted)));
        assert_eq!(read(b"HEAD / HTTP/1.0\n\n"), Some(Wanted::Front(Body::Left)));
        for (target, wanted) in [
            ("http://a:9909/metrics", Wanted::Metrics(Body::Wanted)),
            ("HTTP://[::1]/metrics?x=/", Wanted::Metrics(Body::Wanted)),
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
        let whole = answer(Wanted::Metrics(Body::Wanted), page);
        let head = answer(Wanted::Metrics(Body::Left), page);
        assert_eq!(whole.strip_prefix(head.as_slice()), Some(&b"x 1\n"[..]));
        assert!(String::from_utf8(head).unwrap().contains("\r\nContent-Length: 4\r\n"));
        let none = answer(Wanted::Metrics(Body::Wanted), || Err::<&str, _>("why".to_owned()));
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
}
