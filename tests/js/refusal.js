import assert from 'node:assert/strict';

/// The error that a call of an SDK is refused with: of this class, with the id of its request.
export async function refusal(type, call) {
  const error = await call.then(
    () => assert.fail('it was not refused'),
    (thrown) => thrown,
  );
  assert.ok(error instanceof type, `${error.constructor.name}, expected ${type.name}: ${error.message}`);
  assert.ok(error.requestID);
  return error;
}
