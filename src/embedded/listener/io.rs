//! Bytes of one connection: frames in, answers out.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc;

use super::Handle;
use crate::embedded::ConnectionId;

/// `socket.request.max.bytes`: a longer frame closes the connection.
const FRAME_BYTES_MAX: usize = 100 * 1024 * 1024;
const READ_BYTES: usize = 64 * 1024;

/// Serves a stream until either side closes it.
pub(super) async fn serve<S: AsyncRead + AsyncWrite>(
    handle: Handle,
    connection: ConnectionId,
    stream: S,
    answers: mpsc::UnboundedReceiver<Bytes>,
) {
    let (reader, writer) = split(stream);
    tokio::select! {
        _ended = read(&handle, connection, reader) => {}
        _ended = write(writer, answers) => {}
    }
    handle.disconnect(connection);
}

async fn read<S: AsyncRead>(
    handle: &Handle,
    connection: ConnectionId,
    mut reader: ReadHalf<S>,
) -> std::io::Result<()> {
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    loop {
        while let Some(frame) = next_frame(&mut buffer)? {
            handle.deliver(connection, frame);
        }
        if reader.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// Cuts one whole frame off the buffer, without its length bytes.
fn next_frame(buffer: &mut BytesMut) -> std::io::Result<Option<Bytes>> {
    let Some(prefix) = buffer.first_chunk::<4>() else {
        buffer.reserve(READ_BYTES);
        return Ok(None);
    };
    let length = usize::try_from(i32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let whole = prefix.len() + length;
    if buffer.len() < whole {
        buffer.reserve((whole - buffer.len()).max(READ_BYTES));
        return Ok(None);
    }
    let mut frame = buffer.split_to(whole);
    frame.advance(size_of::<i32>());
    Ok(Some(frame.freeze()))
}

/// Writes answers until the cluster closes the connection.
async fn write<S: AsyncWrite>(
    mut writer: WriteHalf<S>,
    mut answers: mpsc::UnboundedReceiver<Bytes>,
) -> std::io::Result<()> {
    while let Some(frame) = answers.recv().await {
        let length = i32::try_from(frame.len()).map_err(|_| std::io::ErrorKind::InvalidData)?;
        let prefix = length.to_be_bytes();
        writer
            .write_all_buf(&mut Buf::chain(&prefix[..], frame))
            .await?;
        writer.flush().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_as_they_complete() {
        let mut buffer = BytesMut::from(&[0, 0, 0, 2, 7, 8, 0, 0, 0, 1][..]);
        assert_eq!(next_frame(&mut buffer).unwrap().unwrap(), [7, 8][..]);
        assert!(next_frame(&mut buffer).unwrap().is_none());
        buffer.extend_from_slice(&[9]);
        assert_eq!(next_frame(&mut buffer).unwrap().unwrap(), [9][..]);
    }

    #[test]
    fn absurd_lengths_end_the_connection() {
        for prefix in [[0xff; 4], [0x7f, 0xff, 0xff, 0xff]] {
            assert!(next_frame(&mut BytesMut::from(&prefix[..])).is_err());
        }
    }
}
