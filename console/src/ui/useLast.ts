import { useState } from "react";

/** Last value that was not null or undefined. */
export function useLast<Value>(value: Value | null | undefined): Value | undefined {
  const [last, setLast] = useState<Value>();
  if (value != null && value !== last) setLast(value);
  return value ?? last;
}
