-- Sends the requests of a file, one target a line, over and over; each thread begins elsewhere. Prints
-- one line of JSON at the end. Arguments: the file, and how many requests the threads are apart.
local threads = 0

function setup(thread)
   thread:set("number", threads)
   threads = threads + 1
end

function init(args)
   requests = {}
   local headers = { ["Accept"] = "application/sparql-results+json" }
   for target in io.lines(args[1]) do
      requests[#requests + 1] = wrk.format("GET", target, headers)
   end
   place = number * math.floor(#requests / 2)
end

function request()
   place = place % #requests + 1
   return requests[place]
end

function done(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format(
      '{"requests": %d, "seconds": %.6f, "bytes": %d, "p50_ms": %.4f, "p95_ms": %.4f, "p99_ms": %.4f, ' ..
      '"max_ms": %.4f, "failed": %d, "refused": %d}\n',
      summary.requests, summary.duration / 1e6, summary.bytes, latency:percentile(50) / 1e3,
      latency:percentile(95) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3,
      errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
