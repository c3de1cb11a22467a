// A filter in AssemblyScript, on the bare ABI: it adds a response header, answers /denied itself, and counts in a metric.

@external("env", "proxy_add_header_map_value")
declare function addHeader(map: u32, key: usize, keySize: usize, value: usize, valueSize: usize): u32;
@external("env", "proxy_get_header_map_value")
declare function getHeader(map: u32, key: usize, keySize: usize, value: usize, valueSize: usize): u32;
@external("env", "proxy_send_local_response")
declare function reply(status: u32, details: usize, detailsSize: usize, body: usize, bodySize: usize, headers: usize, headersSize: usize, grpc: i32): u32;
@external("env", "proxy_define_metric")
declare function defineMetric(kind: u32, name: usize, nameSize: usize, id: usize): u32;
@external("env", "proxy_increment_metric")
declare function increment(id: u32, by: i64): u32;
@external("env", "proxy_log")
declare function log(level: u32, text: usize, size: usize): u32;

const REQUEST: u32 = 0, RESPONSE: u32 = 2, INFO: u32 = 2;
const CONTINUE: u32 = 0, PAUSE: u32 = 1;

let requests: u32 = 0;

export function proxy_abi_version_0_2_0(): void {}

export function malloc(size: usize): usize {
  return heap.alloc(size);
}

export function proxy_on_context_create(context: u32, root: u32): void {}

export function proxy_on_vm_start(context: u32, size: u32): u32 {
  const name = String.UTF8.encode("requests_total");
  const id = heap.alloc(4);
  defineMetric(0, changetype<usize>(name), name.byteLength, id);
  requests = load<u32>(id);
  return 1;
}

export function proxy_on_configure(context: u32, size: u32): u32 {
  const text = String.UTF8.encode("configured with " + size.toString() + " bytes");
  log(INFO, changetype<usize>(text), text.byteLength);
  return 1;
}

function path(): string {
  const name = String.UTF8.encode(":path");
  const out = heap.alloc(8);
  if (getHeader(REQUEST, changetype<usize>(name), name.byteLength, out, out + 4) != 0) return "";
  return String.UTF8.decodeUnsafe(load<u32>(out), load<u32>(out + 4));
}

export function proxy_on_request_headers(context: u32, count: u32, end: u32): u32 {
  increment(requests, 1);
  if (path() == "/denied") {
    const body = String.UTF8.encode("no");
    reply(403, 0, 0, changetype<usize>(body), body.byteLength, 0, 0, -1);
    return PAUSE;
  }
  return CONTINUE;
}

export function proxy_on_response_headers(context: u32, count: u32, end: u32): u32 {
  const name = String.UTF8.encode("x-by"), value = String.UTF8.encode("assemblyscript");
  addHeader(RESPONSE, changetype<usize>(name), name.byteLength, changetype<usize>(value), value.byteLength);
  return CONTINUE;
}
