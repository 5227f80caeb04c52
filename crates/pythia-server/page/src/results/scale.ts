// Axes with round steps between a minimum and a maximum.

export interface Scale { ticks: number[]; place: (value: number) => number }

/** Returns a scale that maps values from `least` to `greatest` to the pixels between `from` and `to`. */
export function linear(least: number, greatest: number, from: number, to: number): Scale {
  const span = greatest - least || Math.abs(greatest) || 1;
  const raw = span / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10);
  const low = Math.floor(least / step) * step;
  const high = greatest === least ? low + step : Math.ceil(greatest / step) * step;
  const ticks: number[] = [];
  for (let at = 0; low + at * step <= high + step / 1e6; at++) ticks.push(Number((low + at * step).toPrecision(12)));
  const place = (value: number) => from + ((value - low) / (high - low)) * (to - from);
  return { ticks, place };
}
