// The binary frames of the room's WebSocket; interviews/room_frames.py is the other end.
//
// kind (1 byte), position of the question (2 bytes), epoch of its document (4 bytes), then the message of y-protocols.
import * as decoding from "lib0/decoding";
import * as encoding from "lib0/encoding";

export const KIND_SYNC = 0;
export const KIND_AWARENESS = 1;
export const SYNC_STEP_1 = 0;
export const SYNC_STEP_2 = 1;
export const SYNC_UPDATE = 2;

const HEAD_BYTES = 7;

function frame(kind, position, epoch, payload) {
  const bytes = new Uint8Array(HEAD_BYTES + payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, kind);
  view.setUint16(1, position);
  view.setUint32(3, epoch);
  bytes.set(payload, HEAD_BYTES);
  return bytes;
}

export function syncFrame(position, epoch, type, content) {
  const encoder = encoding.createEncoder();
  encoding.writeVarUint(encoder, type);
  encoding.writeVarUint8Array(encoder, content);
  return frame(KIND_SYNC, position, epoch, encoding.toUint8Array(encoder));
}

export function awarenessFrame(position, epoch, update) {
  return frame(KIND_AWARENESS, position, epoch, update);
}

/** `{kind, position, epoch, payload}`, for a sync frame with `type` and `content`. */
export function decodeFrame(buffer) {
  const view = new DataView(buffer);
  const decoded = {
    kind: view.getUint8(0),
    position: view.getUint16(1),
    epoch: view.getUint32(3),
    payload: new Uint8Array(buffer, HEAD_BYTES),
  };
  if (decoded.kind === KIND_SYNC) {
    const decoder = decoding.createDecoder(decoded.payload);
    decoded.type = decoding.readVarUint(decoder);
    decoded.content = decoding.readVarUint8Array(decoder);
  }
  return decoded;
}
