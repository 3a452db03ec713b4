// Decodes a picture, and returns its size and the mean colour of each tile as base64 of RGB bytes.
async ([picture, side]) => {
  const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes]));
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  const { data } = canvas.getImageData(0, 0, width, height);
  const columns = Math.ceil(width / side);
  const sums = new Float64Array(columns * Math.ceil(height / side) * 4);
  for (let y = 0, at = 0; y < height; y++) {
    const row = Math.floor(y / side) * columns;
    for (let x = 0; x < width; x++, at += 4) {
      const tile = (row + Math.floor(x / side)) * 4;
      sums[tile] += data[at];
      sums[tile + 1] += data[at + 1];
      sums[tile + 2] += data[at + 2];
      sums[tile + 3] += 1;
    }
  }
  let means = "";
  for (let tile = 0; tile < sums.length; tile += 4)
    for (let channel = 0; channel < 3; channel++)
      means += String.fromCharCode(Math.round(sums[tile + channel] / sums[tile + 3]));
  return { width, height, means: btoa(means) };
}
