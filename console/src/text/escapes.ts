// Removes terminal escape sequences from logs, so that a log cannot manipulate the page.

// CSI, OSC (to BEL or ST), other escapes of two characters.
const SEQUENCES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Plain text of a line, without colours, cursor movements and text direction marks. */
export const plain = (line: string): string => line.replace(SEQUENCES, "").replace(CONTROLS, "�");
