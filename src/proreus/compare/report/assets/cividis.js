// Colours of levels; the report and the dashboard share them.

// cividis, which keeps its order for colour-blind readers and in grey.
const stops = ["00224e", "1a386f", "434e6c", "61656f", "7d7c78", "9b9476", "bcae6c", "dec958", "fee838"]
  .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
export const palette = Array.from({ length: 256 }, (_, level) => {
  const at = level / 255 * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((from, part) => Math.round(from + (at - low) * (stops[low + 1][part] - from)));
});
