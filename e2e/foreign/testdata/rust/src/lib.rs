//! A filter written with the crate proxy-wasm: it greets by a request header, counts in shared data, answers /denied itself, and
//! turns the response's body into capitals.

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType, LogLevel};

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|_| Box::new(Root { greeting: String::new() }));
}}

struct Root {
    greeting: String,
}

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        match self.get_plugin_configuration() {
            Some(b) => {
                self.greeting = String::from_utf8_lossy(&b).into_owned();
                true
            }
            None => {
                log("no greeting is configured");
                false
            }
        }
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream { greeting: self.greeting.clone() }))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

struct Stream {
    greeting: String,
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        if self.get_http_request_header(":path").as_deref() == Some("/denied") {
            self.send_http_response(403, vec![("x-by", "rust")], Some(b"no"));
            return Action::Pause;
        }
        self.set_http_request_header("x-greeting", Some(&self.greeting));
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        let (old, cas) = self.get_shared_data("count");
        let n = old.map_or(0, |b| b[0]) + 1;
        if self.set_shared_data("count", Some(&[n]), cas).is_ok() {
            self.set_http_response_header("x-count", Some(&n.to_string()));
        }
        Action::Continue
    }

    fn on_http_response_body(&mut self, size: usize, _: bool) -> Action {
        if let Some(body) = self.get_http_response_body(0, size) {
            self.set_http_response_body(0, size, &body.to_ascii_uppercase());
        }
        Action::Continue
    }
}

fn log(text: &str) {
    let _ = proxy_wasm::hostcalls::log(LogLevel::Error, text);
}
