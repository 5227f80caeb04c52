//! temp
use std::io::{self, Read};
use pythia_rdf::*;
struct Repeat { start: io::Cursor<Vec<u8>>, unit: Vec<u8>, at: usize, left: u64 }
impl Read for Repeat {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let started = self.start.read(buffer)?;
        if started > 0 { return Ok(started); }
        let wanted = (buffer.len() as u64).min(self.left) as usize;
        for byte in &mut buffer[..wanted] { *byte = self.unit[self.at]; self.at = (self.at + 1) % self.unit.len(); }
        self.left -= wanted as u64;
        Ok(wanted)
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let reader = Repeat { start: io::Cursor::new(a[2].clone().into()), unit: a[3].clone().into(), at: 0, left: a[4].parse().unwrap() };
    let f = RdfFormat::from_extension(&a[1]).unwrap();
    let s = Source::from_reader("x".into(), reader, f, Compression::None).unwrap();
    let t = std::time::Instant::now();
    let r = parse_sources(vec![s], &ParseOptions::default(), &mut [CountingSink::new()], &Progress::default());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{:?} {:?} {}", t.elapsed(), r.map_err(|e| e.to_string()), status.lines().find(|l| l.starts_with("VmHWM")).unwrap());
}
