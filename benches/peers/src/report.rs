//! The table at the end.

use std::fmt;

use crate::readers::{Measured, Reader};

/// All measurements of one topic.
#[derive(Default)]
pub struct Report {
    rows: Vec<(Reader, Measured)>,
}

impl Report {
    pub fn add(&mut self, reader: Reader, measured: Measured) {
        self.rows.push((reader, measured));
    }

    fn median(&self, reader: Reader, figure: fn(&Measured) -> f64) -> Option<f64> {
        let of_reader = self.rows.iter().filter(|(who, _)| *who == reader);
        let mut figures: Vec<f64> = of_reader.map(|(_, measured)| figure(measured)).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied()
    }
}

impl fmt::Display for Report {
    /// Medians over the rounds, and their ratios to the bare reader's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<12} {:>12} {:>8} {:>16} {:>8} {:>10}",
            "reader", "records/s", "x bare", "CPU-s/M records", "x bare", "first (s)"
        )?;
        let bare_rate = self.median(Reader::Bare, Measured::rate);
        let bare_cpu = self.median(Reader::Bare, Measured::cpu_per_million);
        for reader in Reader::ALL {
            let Some(rate) = self.median(reader, Measured::rate) else {
                continue;
            };
            let cpu = self
                .median(reader, Measured::cpu_per_million)
                .unwrap_or(f64::NAN);
            let first = self
                .median(reader, |measured| measured.first_s)
                .unwrap_or(f64::NAN);
            writeln!(
                f,
                "{:<12} {:>12.0} {:>8.2} {:>16.3} {:>8.2} {:>10.3}",
                reader.name(),
                rate,
                rate / bare_rate.unwrap_or(f64::NAN),
                cpu,
                cpu / bare_cpu.unwrap_or(f64::NAN),
                first,
            )?;
        }
        Ok(())
    }
}
